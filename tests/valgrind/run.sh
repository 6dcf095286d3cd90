#!/bin/sh
# Runs tests of a gtest program under valgrind's memcheck: errors and definite leaks fail.
# usage: run.sh <program> <gtest filter>
set -eu
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is missing (scripts/deps.sh installs it)"
    exit 77
fi
# Fair: one thread runs at a time, and one that spins would keep the others out.
exec valgrind -q --error-exitcode=9 --fair-sched=yes --leak-check=full \
    --show-leak-kinds=definite --errors-for-leak-kinds=definite "$1" --gtest_filter="$2"
