#!/bin/bash
# Builds the dev preset and runs its tests.  The last line reports how many passed and failed.
# usage: scripts/test.sh [CTEST ARGUMENT...]      e.g. scripts/test.sh -R TimingWheel
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

scripts/deps.sh
step "dev: build"
build dev
step "dev: tests"
status=0
run_tests dev "$@" || status=1
print_results
exit "$status"
