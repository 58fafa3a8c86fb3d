#!/bin/sh
# Run tests in one process, with the coverage of the pure rooms or without: sh scripts/run_tests.sh traced|plain PATH...
# What it says comes at its end, so that two of them do not mix their lines; of what went well only the last line.
how=$1
shift
printf '%s: %s ...\n' "$how" "$*"
case $how in
    traced) said=$(PYTHONDONTWRITEBYTECODE= .venv/bin/coverage run --parallel-mode -m pytest -q -p no:anyio "$@" 2>&1) ;;
    plain) said=$(PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -q -p no:anyio $IGNORED "$@" 2>&1) ;;
esac
status=$?
if [ $status -eq 0 ]; then said=$(printf '%s\n' "$said" | tail -n 1); fi
printf '%s: %s: %s\n' "$how" "$*" "$said"
exit $status
