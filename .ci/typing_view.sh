#!/usr/bin/env bash
# Lays the Python packages out as they are installed, by links, in build/typing/holdfast: type
# checkers and import-linter see the names that users import, without an install.
set -euo pipefail

view=build/typing/holdfast
rm -rf build/typing
mkdir -p build/typing
cp -rs "$PWD/bindings/holdfast" "$view"
for package in comm ft compress topology; do
  if [ -d "$package" ]; then cp -rs "$PWD/$package" "$view/$package"; fi
done
find build/typing -name __pycache__ -prune -exec rm -rf {} +
