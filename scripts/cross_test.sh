#!/usr/bin/env bash
# Builds the library and the tests of the stack switch and the scheduler for aarch64, and runs them
# under qemu-user.  Not a part of check.sh.
# usage: scripts/cross_test.sh [GOOGLETEST ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

needed=(aarch64-linux-gnu-g++ qemu-aarch64 cmake ninja)
packages=(g++-aarch64-linux-gnu qemu-user libgtest-dev cmake ninja-build)

# Whether all is there: the programs, and GoogleTest's source.
is_there() {
    local program
    for program in "${needed[@]}"; do
        command -v "$program" >/dev/null || return 1
    done
    [ -f /usr/src/googletest/CMakeLists.txt ]
}

install_packages() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
        --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}"
}

if ! is_there; then
    step "install ${packages[*]}"
    quietly install_packages
fi

step 'build for aarch64'
quietly cmake -G Ninja -Wno-dev -S tests/cross -B build/aarch64 --toolchain "$PWD/cmake/aarch64.cmake"
quietly cmake --build build/aarch64 --target cross_tests

# Left out: two that start themselves anew, which takes a kernel that runs programs for aarch64; and
# one that limits its address space, of which qemu has its share.
left_out=FiberDeathTest.WithoutAHandlerItEndsTheProgram
left_out=$left_out:SchedulerDeathTest.YieldingMakesNoSystemCall
left_out=$left_out:Scheduler.SaysSoIfTheSystemRefusesAThread

step 'run under qemu-user'
qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/cross_tests --gtest_brief=1 \
    --gtest_filter="-$left_out" "$@"
step 'done'
