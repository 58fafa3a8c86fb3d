#!/bin/sh
# Run tests in one process, with the coverage of the pure rooms or without: sh scripts/run_tests.sh traced|plain PATH...
# What it says comes at its end, so that two of them do not mix their lines; of what went well only the last line.
how=$1
shift
printf '%s: %s ...\n' "$how" "$*"
capture=fd
# half of all tests, and none of them starts a program that needs the files behind the streams: a fifth of pytest's own work
if [ "$how" = traced ]; then export REFOLD_TRACED=1 IGNORED=; capture=sys; fi
# libraries of the adapters bring plugins of pytest that no test uses, one of which imports for a second
# and to free what a thousand tests have left takes Python seconds at its end, for nothing
run='import sys; sys.path.insert(0, "tests"); import pytest; from forked_program import leave_quickly; leave_quickly(int(pytest.main()))'
said=$(PYTHONDONTWRITEBYTECODE= PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 .venv/bin/python -c "$run" -q -p hypothesispytest --capture=$capture $IGNORED "$@" 2>&1)
status=$?
if [ $status -eq 0 ]; then said=$(printf '%s\n' "$said" | tail -n 1); fi
printf '%s: %s: %s\n' "$how" "$*" "$said"
exit $status
