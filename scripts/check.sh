#!/bin/bash
# The checks, in the order that fails fastest.  CONTRIBUTING.md lists what each of them finds.
# usage: scripts/check.sh [quick | full] [--tested]
#   quick      format, lint, the dev build with its tests, each header alone
#   (none)     what CI runs: quick, then clang's sanitizers, the benchmarks, the mutants that changed
#   full       every test in every preset, clang-tidy of all sources, long fuzzing and stress, every
#              mutant; records in scripts/order_mutants.json what passed
#   --tested   scripts/test.sh has just passed: its results are counted, not made again
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

mode=ci tested=false
for argument; do
    case $argument in
        quick | full) mode=$argument ;;
        --tested) tested=true ;;
        *) echo "usage: scripts/check.sh [quick | full] [--tested]" >&2; exit 2 ;;
    esac
done

# begin STAGE: prints its name, and adds the time of the last one to the table.
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

# The last lines report how long each stage took, how many tests ran, over all presets, and what failed.
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

# test_sanitized PRESET: the unit, stress and issue tests.  Examples, property tests and the tracking
# build run sanitized in the full check only.
test_sanitized() {
    local targets=(unit_tests stress_tests)
    ! compgen -G 'tests/issues/*_test.cpp' >/dev/null || targets+=(issue_tests)
    begin "$1: build"
    build "$1" -- "${targets[@]}"
    begin "$1: tests"
    run_tests "$1" -L 'unit|stress|issue'
}

# tidy: clang-tidy of the sources on standard input, one name a line.
tidy() { quietly xargs -r -d '\n' -n 1 -P "$(nproc)" clang-tidy -p build/clang-dev --quiet; }

# Sources that differ from the tree of the last full run, which is the commit that recorded its
# mutants.  All of them if there is none, or no git.  A header that changed is left to the full run.
changed_sources() {
    local base
    base=$(git log -1 --format=%H -- scripts/order_mutants.json 2>/dev/null) || base=
    if [ -n "$base" ]; then
        git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp'
    else
        find src -name '*.cpp'
    fi
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

begin "the kernel is called through the seam only"
scripts/check_kernel.py

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
if [ "$mode" = quick ]; then
    finished=true
    exit
fi

if [ "$mode" = ci ]; then
    # Clang's sanitizers: with g++'s, compiling takes 1.5 (ASan) and 1.2 (TSan) times as long, and g++'s
    # TSan has at most 8128 fibers at a time and does not support fences.  These two presets are also
    # the clang build of CI; clang-asan has -Werror, so thread-safety analysis fails it.
    test_sanitized clang-asan
    test_sanitized clang-tsan

    begin "verge-bench --all --quick: build"
    build release -- verge-bench
    begin "verge-bench --all --quick"
    build/release/bench/verge-bench --all --quick

    mapfile -t changed < <(changed_sources)
    begin "clang-tidy: ${#changed[@]} sources that changed since the last full run"
    if [ ${#changed[@]} -gt 0 ]; then
        quietly cmake --preset clang-dev -Wno-dev
        printf '%s\n' "${changed[@]}" | tidy
    fi

    begin "each memory order is needed: units that changed"
    scripts/mutate_orders.py
    finished=true
    exit
fi

test_preset clang-dev

# Any bytes into the request handler of verge serve.  What it finds stays in build/clang-dev/fuzz.
# It is one thread, so it runs beside clang-tidy and the first sanitizer.  It has a process group of
# its own, which conclude() ends: Ctrl-C does not reach what runs in the background.
# The seed is fixed: a check has the same result for the same tree.  VERGE_FUZZ_SEED=0 takes
# another one each time, to find more.
fuzz_seconds=${VERGE_FUZZ_SECONDS:-600}
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
find src -name '*.cpp' | tidy

# The scripts' own tests and the installed files do not depend on the preset: once for each compiler
# is enough.  The shared library is installed differently.
test_preset asan -LE 'script|install|gdb'

begin "fuzz: HTTP requests, $fuzz_seconds s, beside clang-tidy and asan"
wait "$fuzz_pid"
fuzz_pid=

for preset in tsan release clang-asan clang-tsan; do
    test_preset "$preset" -LE 'script|install|gdb'
done
# Its own install, but not the subdirectory, which is built from nothing: dev has done that.
test_preset shared -LE script -E install/subdirectory

begin "release: stress tests, 10 times"
run_tests release -L stress --repeat until-fail:10

begin "verge-bench --all --quick"
build release -- verge-bench
build/release/bench/verge-bench --all --quick

begin "each memory order is needed"
scripts/mutate_orders.py --all --record
finished=true
