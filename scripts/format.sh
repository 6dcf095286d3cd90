#!/bin/sh
# Formats every C++ file in place.
set -eu
cd "$(dirname "$0")/.."
find include src tests bench examples tools '(' -name '*.hpp' -o -name '*.cpp' ')' \
    -exec clang-format -i {} +
