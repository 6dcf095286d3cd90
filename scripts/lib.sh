# shellcheck shell=bash
# What test.sh, check.sh, run.sh and bench.sh share.  Sourced from the root of the repository.

export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
# For the projects that tests/install builds from nothing; our own build sets its launcher itself.
! command -v ccache >/dev/null || export CMAKE_CXX_COMPILER_LAUNCHER=ccache

passed=0 failed=0 skipped=0   # tests, over all presets so far
skips=''                      # a line for each that was skipped: preset, name, reason

# step HEADING: prints it with the seconds since the script began.
step() { printf '\n== [%4d s] %s\n' "$SECONDS" "$*"; }

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || cat "$log" >&2
    rm -f "$log"
    return "$status"
}

# g++ 12 and clang 14 lay out TSan's shadow for less random addresses than newer kernels give.
fixed_addresses() {
    if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# build PRESET [-DNAME=VALUE...] [-- TARGET...]
build() {
    local preset=$1 quiet=() targets=()
    local -a settings=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do settings+=("$1"); shift; done
    [ $# -eq 0 ] || { shift; targets=(--target "$@"); }
    [ -t 1 ] || quiet=(-- --quiet)
    quietly cmake --preset "$preset" -Wno-dev "${settings[@]}"
    # A build runs the test programs, to list their tests.
    fixed_addresses cmake --build "build/$preset" "${targets[@]}" "${quiet[@]}"
}

# add_results PRESET: counts the tests of its last run; fails if any failed or none ran.
add_results() {
    local file=build/$1/test-results.xml tests failures disabled not_run reasons
    [ -f "$file" ] || { echo "$1: no tests ran" >&2; return 1; }
    field() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$file" | head -n 1; }
    tests=$(field tests) failures=$(field failures) disabled=$(field disabled) not_run=$(field skipped)
    passed=$((passed + tests - failures - disabled - not_run))
    failed=$((failed + failures))
    skipped=$((skipped + disabled + not_run))
    reasons=$(skips_of "$1")
    skips+=${reasons:+$reasons$'\n'}
    [ "$failures" = 0 ] && [ $((tests - disabled - not_run)) -gt 0 ]
}

# skips_of PRESET: prints a line for each test of its last run that was skipped.  The reason is what
# the test printed: after "Skipped" (gtest), or after "skipped: " (scripts).
skips_of() {
    awk -v preset="$1" '
        function plain(text) {
            gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text)
            gsub(/&apos;/, "\047", text); gsub(/&amp;/, "\\&", text)
            return text
        }
        /<testcase / { name = $0; sub(/.* name="/, "", name); sub(/".*/, "", name); is_skipped = is_next = 0; reason = "" }
        /<skipped/ { is_skipped = 1 }
        is_next { reason = $0; is_next = 0 }
        /: Skipped$/ && reason == "" { is_next = 1 }
        /skipped: / && reason == "" { reason = $0; sub(/.*skipped: /, "", reason) }
        /<\/testcase>/ && is_skipped {
            printf "  %s: %s: %s\n", preset, plain(name), reason == "" ? "no reason given" : plain(reason)
        }' "build/$1/test-results.xml"
}

# run_tests PRESET [CTEST ARGUMENT...]: runs and counts them.  Where nobody watches, a test that
# passes is only counted.
run_tests() {
    local preset=$1 status=0 boring='^$'
    shift
    [ -t 1 ] || boring='^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test .* Passed +[0-9.]+ sec|^$'
    rm -f "build/$preset/test-results.xml"
    fixed_addresses ctest --preset "$preset" --output-junit test-results.xml --no-label-summary "$@" |
        { grep --line-buffered -Ev "$boring" || true; } || status=$?
    add_results "$preset" || status=1
    return "$status"
}

# Ends a script's output: which tests were skipped, and why; how many ran, alone on a line.
print_results() {
    echo
    [ "$skipped" = 0 ] || printf '%d skipped:\n%s' "$skipped" "$skips"
    echo "$passed passed, $failed failed"
}
