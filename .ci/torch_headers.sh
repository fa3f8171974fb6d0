#!/usr/bin/env bash
# Compiles the PyTorch backend against the headers of torch versions other than the installed one:
# the virtual functions that only newer versions have are used in no other build. Headers are the
# same on every platform, so they come from the smallest wheel.
#
# usage: torch_headers.sh PYTHON VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
python_headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')

fetch() {
  local version=$1 to=$2
  mkdir -p "$to.new"
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --platform macosx_14_0_arm64 \
    --python-version 3.11 --dest "$to.new" "torch==$version" || return 1
  "$python" - "$to.new" <<'PYTHON'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
wheel = next(folder.glob("*.whl"))
with zipfile.ZipFile(wheel) as files:
    files.extractall(folder, [n for n in files.namelist() if n.startswith("torch/include/")])
wheel.unlink()
PYTHON
  mv "$to.new" "$to"
}

# All of it at once: torch's headers take longer to read than everything else.
whole=build/torch-headers/whole.cpp
mkdir -p "$(dirname "$whole")"
printf '#include "%s"\n' "$PWD"/bindings/torch/*.cpp > "$whole"

compile() {
  local version=$1 folder=build/torch-headers/$1
  if [[ ! -d $folder ]] && ! fetch "$version" "$folder"; then
    rm -rf "$folder.new"
    echo "torch $version: skipped, waits for its wheel to be downloadable"
    return
  fi
  c++ -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
    -Inative -Ibindings -Ibindings/torch -DHOLDFAST_TORCH_VERSION='"0"' \
    -isystem "$folder/torch/include" -isystem "$folder/torch/include/torch/csrc/api/include" \
    -isystem "$python_headers" "$whole" || return
  echo "torch $version: the backend compiles against its headers"
}
export -f fetch compile
export python python_headers whole
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I{} bash -euo pipefail -c 'compile "$1"' _ {}
