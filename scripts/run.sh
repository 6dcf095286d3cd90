#!/bin/bash
# Builds the release preset's verge program and runs it.
# usage: scripts/run.sh [ARGUMENT OF verge...]      verge demo if there is none; see verge --help
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

if [ "${1:-}" = bench ]; then
    # The peers, too.
    scripts/deps.sh >&2
    build release -- verge_program verge-bench >&2
else
    scripts/deps.sh build >&2
    # The tests and benchmarks are left out: the packages they need may not be there.
    build release -DVERGE_TESTS=OFF -DVERGE_EXAMPLES=OFF -DVERGE_BENCH=OFF -- verge_program >&2
fi
[ $# -gt 0 ] || set -- demo
exec build/release/tools/verge "$@"
