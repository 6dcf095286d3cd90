#!/bin/bash
# Everything CI runs, on your machine, in the order that fails fastest.
# usage: scripts/check.sh [quick] [--tested]
#   quick      format, lint, the dev build with its tests, each header alone
#   --tested   scripts/test.sh has just passed: its results are counted, not made again
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

quick=false tested=false
for argument; do
    case $argument in
        quick) quick=true ;;
        --tested) tested=true ;;
        *) echo "usage: scripts/check.sh [quick] [--tested]" >&2; exit 2 ;;
    esac
done

# begin STAGE: says that it begins; how long the last one took goes into the table.
doing='' began=0 stages='' fuzz_pid='' finished=false
begin() {
    end_stage
    doing=$* began=$SECONDS
    step "$*"
}
end_stage() {
    local took=$((SECONDS - began))
    [ "$took" = 0 ] || stages+=$(printf '%6d s  %s' "$took" "$doing")$'\n'
}

# The last lines say how long each stage took, how many tests ran, over all presets, and what failed.
conclude() {
    local status=$?
    [ -z "$fuzz_pid" ] || kill -- "-$fuzz_pid" 2>/dev/null || true
    end_stage
    ! $finished || step "all checks passed"
    printf '\n%s' "$stages"
    print_results
    $finished || echo "FAILED: $doing"   # a signal has no status here
    exit "$status"
}

# test_preset PRESET [CTEST ARGUMENT...]
test_preset() {
    begin "$1: build"
    build "$1"
    begin "$1: tests"
    run_tests "$@"
}

# Tracked files, and new ones that are not ignored; in a tarball, all.
files() { git ls-files -co --exclude-standard "$@" 2>/dev/null || find . -name "$1" -not -path './build/*'; }
existing() { while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done; }

trap conclude EXIT
begin packages
scripts/deps.sh

if $tested; then
    begin "dev: tests have just passed"
    add_results dev
fi

begin format
mapfile -t sources < <({ files '*.hpp'; files '*.cpp'; } | existing)
clang-format --dry-run --Werror "${sources[@]}"

begin layers
scripts/check_layers.py

begin "memory orders have reasons"
scripts/check_orders.py

begin "atomics are in docs/memory_model.md"
scripts/check_atomics.py

begin shellcheck
mapfile -t shell_scripts < <(files '*.sh' | existing)
shellcheck -x .ci/run "${shell_scripts[@]}"

$tested || test_preset dev

begin "each header alone"
build dev -- all_verify_interface_header_sets
if $quick; then
    finished=true
    exit
fi

test_preset clang-dev

# Any bytes into the request handler of verge serve.  What it finds stays in build/clang-dev/fuzz.
# It is one thread, so it runs beside clang-tidy, where it has two thirds of a core of two.  It has a
# process group of its own, which conclude() ends: Ctrl-C does not reach what runs in the background.
# The seed is always the same: a check says the same of the same tree.  VERGE_FUZZ_SEED=0 takes
# another one each time, to find more.
fuzz_seconds=${VERGE_FUZZ_SECONDS:-90}
begin "fuzz: build"
build clang-dev -- http_fuzz
mkdir -p build/clang-dev/fuzz/http
set -m
quietly fixed_addresses build/clang-dev/tools/http_fuzz -seed="${VERGE_FUZZ_SEED:-1}" \
    -max_total_time="$fuzz_seconds" \
    -timeout=20 -max_len=20000 -dict=tests/fuzz/http.dict -artifact_prefix=build/clang-dev/fuzz/ \
    build/clang-dev/fuzz/http tests/fuzz/corpus &
fuzz_pid=$!
set +m

begin clang-tidy
find src -name '*.cpp' -print0 |
    quietly xargs -0 -r -n 1 -P 2 clang-tidy -p build/clang-dev --quiet

begin "fuzz: HTTP requests, $fuzz_seconds s, beside clang-tidy"
wait "$fuzz_pid"
fuzz_pid=

# The scripts' own tests and the installed files do not depend on the preset: once for each compiler
# is enough.  The shared library is installed differently.
for preset in asan tsan release; do
    test_preset "$preset" -LE 'script|install|gdb'
done
# The second compiler's sanitizers see the unit tests and the stress tests, where its ThreadSanitizer
# has more fibers at a time than the first's can: some 80 s more on two cores.
for preset in clang-asan clang-tsan; do
    begin "$preset: build"
    build "$preset" -- unit_tests stress_tests
    begin "$preset: tests"
    run_tests "$preset" -L 'unit|stress'
done
# Its own install, but not the subdirectory, which is built from nothing: dev has done that.
test_preset shared -LE script -E install/subdirectory

begin "verge-bench --all --quick"
build release -- verge-bench
build/release/bench/verge-bench --all --quick

begin "each memory order is needed"
scripts/mutate_orders.py
finished=true
