#!/usr/bin/env bash
# Reads the whole library as one file, as a unity build might: it groups files by the order of their
# names, eight at a time, so that two that define one name meet when a third comes or goes. Here
# they all meet. Nothing is compiled; about twenty seconds.
# Usage: .ci/one_unit.sh COMPILER
set -euo pipefail

compiler=$1
# Loops of the instruction levels and kernels have options of their own, so that no unity build
# takes them; levels have the same names on purpose.
levels='/level_[a-z0-9]+\.cpp$'
mkdir -p build
find native bindings/c -name '*.cpp' | grep -vE "$levels" | sort |
  sed "s|.*|#include \"$PWD/&\"|" > build/one_unit.cpp
"$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
  -Inative -Inative/include -DHOLDFAST_PLANTED -DHOLDFAST_VERSION='""' build/one_unit.cpp
echo "one unit: $(wc -l < build/one_unit.cpp) files, no name twice"
