#!/usr/bin/env bash
# Reads the whole library as one file, and MPI and the Python module as others, as a unity build
# might: it groups files by the order of their names, 24 at a time, so that two that define one name
# meet when a third comes or goes. Here they all meet. Nothing is compiled; about thirty seconds.
# The torch backend is one file in torch_headers.sh.
# Usage: .ci/one_unit.sh COMPILER PYTHON
set -euo pipefail

compiler=$1
python=$2
mkdir -p build

# one_unit NAME FLAG...: of the files whose names stand on stdin.
one_unit() {
  local unit=build/one_unit_$1.cpp
  sort | sed "s|.*|#include \"$PWD/&\"|" > "$unit"
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
    -Inative -Inative/include "${@:2}" -DHOLDFAST_VERSION='""' "$unit"
  echo "one unit: $1, $(wc -l < "$unit") files, no name twice"
}

# Loops of the instruction levels and kernels have options of their own, so that no unity build
# takes them; levels have the same names on purpose.
levels='/level_[a-z0-9]+\.cpp$'
find native bindings/c -name '*.cpp' | grep -vE "$levels" | one_unit library -DHOLDFAST_PLANTED

mkdir -p build/one_unit/mpi
"$python" bindings/mpi/generate.py calls build/one_unit/mpi/calls.h
find bindings/mpi -name '*.cpp' -not -path '*/abi/*' |
  one_unit mpi -Ibindings -Ibuild/one_unit

nanobind=$("$python" -c 'import nanobind; print(nanobind.include_dir())')
python_headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
find bindings/core -name '*.cpp' |
  one_unit python -Ibindings -Ibindings/core -isystem "$nanobind" -isystem "$python_headers" \
    -fvisibility=hidden -DHOLDFAST_COMPILER='""'
