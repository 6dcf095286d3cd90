#!/bin/bash
# Builds the release preset's verge program and runs it.
# usage: scripts/run.sh [ARGUMENT OF verge...]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

scripts/deps.sh build
# The tests and benchmarks are left out: the packages they need may not be there.
build release -DVERGE_TESTS=OFF -DVERGE_EXAMPLES=OFF -DVERGE_BENCH=OFF -- verge_program
exec build/release/tools/verge "$@"
