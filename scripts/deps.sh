#!/bin/sh
# Installs the Debian packages that are missing, and lists them.
# usage: scripts/deps.sh [build]
#   build   only what it takes to build the release preset and run the verge program
#   (none)  all of it: tests, checks, and the peers of verge-bench
set -eu

build='g++ cmake ninja-build'        # the compiler of most presets; their generator
build="$build ccache"                # one object serves several build folders
build="$build libcli11-dev"          # tools/: the command line
build="$build libfmt-dev"            # tools/: text
build="$build libboost-dev"          # tools/: Beast's HTTP parser

checks='clang'                       # the clang presets: thread-safety analysis, sanitizers
checks="$checks libclang-rt-14-dev"  # their run-time libraries, and libFuzzer
checks="$checks clang-tidy clang-format shellcheck"
checks="$checks python3"             # scripts/*.py, and the tests written in Python

tests='libgtest-dev'                 # unit, stress and issue tests
tests="$tests relacy-dev"            # tests/model, scripts/mutate_orders.py
tests="$tests librapidcheck-dev"     # tests/property
tests="$tests libboost-context-dev"  # tests/unit/fibers: the reference for our own stack switch; bench/
tests="$tests valgrind gdb"          # tests/valgrind, tests/gdb
tests="$tests pkg-config"            # tests/install
tests="$tests chromium chromium-driver fonts-dejavu-core"   # tests/tool: the live page of verge serve

# The peers of verge-bench, bench/CMakeLists.txt.
bench='libasio-dev libevent-dev libuv1-dev libev-dev libboost-fiber-dev golang-go'

case ${1:-all} in
    build) packages=$build programs='g++ cmake ninja' ;;
    all)
        packages="$build $checks $tests $bench"
        programs='g++ cmake ninja clang++ clang-tidy clang-format shellcheck python3' ;;
    *) echo "usage: scripts/deps.sh [build]" >&2; exit 2 ;;
esac

# Nothing can be installed here: enough if the programs are there in some other way.
carry_on() {
    echo "deps: $1" >&2
    absent=
    for program in $programs; do
        command -v "$program" >/dev/null || absent="$absent $program"
    done
    if [ -n "$absent" ]; then
        echo "deps: these programs are needed, please install them:$absent" >&2
        exit 1
    fi
    echo "deps: the programs needed are there, carrying on" >&2
    exit 0
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    carry_on "no apt here; on Debian 12 the packages would be: $packages"
fi

# Every name that an installed package has or provides, one a line.
installed=$(dpkg-query -W -f='${db:Status-Status}, ${Package}, ${Provides}\n' |
    awk -F ', *' '$1 == "installed" { for (i = 2; i <= NF; ++i) { sub(/ .*/, "", $i); print $i } }')

# Prints those of the names given that are not in $installed.
missing_of() {
    for name in "$@"; do
        printf '%s\n' "$installed" | grep -qxF -e "$name" || printf '%s\n' "$name"
    done
}

# shellcheck disable=SC2086  # a list of names
missing=$(missing_of $packages | tr '\n' ' ')
missing=${missing% }
if [ -z "$missing" ]; then
    echo "deps: nothing to install"
    exit 0
fi

if [ "$(id -u)" = 0 ]; then
    as_root() { env DEBIAN_FRONTEND=noninteractive "$@"; }
elif command -v sudo >/dev/null; then
    as_root() { sudo env DEBIAN_FRONTEND=noninteractive "$@"; }
else
    carry_on "neither root nor sudo; missing packages: $missing"
fi

echo "deps: installing $missing"
as_root apt-get update -qq || carry_on "apt-get update failed; missing packages: $missing"

# A package that this release of Debian does not have is named and left out.
wanted=
for name in $missing; do
    if [ -n "$(apt-cache showpkg "$name" 2>/dev/null | sed -n '/^Versions:/,/^Reverse/{/^[0-9]/p}')" ]; then
        wanted="$wanted $name"
    else
        echo "deps: no package $name here, left out" >&2
    fi
done
[ -n "$wanted" ] || carry_on "nothing left to install"

# shellcheck disable=SC2086  # a list of names
as_root apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 $wanted >/dev/null || carry_on "apt-get install failed; missing packages: $missing"
echo "deps: installed$wanted"
