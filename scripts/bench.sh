#!/bin/bash
# Builds the release preset's verge-bench and runs it.
# usage: scripts/bench.sh ARGUMENT OF verge-bench...      e.g. scripts/bench.sh --all --quick
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

scripts/deps.sh >&2
build release -- verge-bench >&2
exec build/release/bench/verge-bench "$@"
