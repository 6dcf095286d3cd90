#!/bin/sh
# Builds and runs the stranger's project of this folder, from nothing.
# usage: run.sh <cmake> <source dir of verge> <scratch dir> <c++ compiler>
set -eu
cmake=$1 verge=$2 scratch=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$scratch"  # a cache would keep the options of the last time
"$cmake" -S "$here" -B "$scratch" -G Ninja -DVERGE_SOURCE="$verge" -DCMAKE_CXX_COMPILER="$cxx"
"$cmake" --build "$scratch"
"$scratch/stranger"
