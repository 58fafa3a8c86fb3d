#!/bin/sh
# Run tests in one process, with the coverage of the pure rooms or without: sh scripts/run_tests.sh traced|plain PATH...
# What it says comes at its end, so that two of them do not mix their lines; of what went well only the last line.
how=$1
shift
printf '%s: %s ...\n' "$how" "$*"
if [ "$how" = traced ]; then export REFOLD_TRACED=1 IGNORED=; fi
said=$(PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -q -p no:anyio $IGNORED "$@" 2>&1)
status=$?
if [ $status -eq 0 ]; then said=$(printf '%s\n' "$said" | tail -n 1); fi
printf '%s: %s: %s\n' "$how" "$*" "$said"
exit $status
