#!/usr/bin/env bash
# Compiles the PyTorch backend against the headers of torch versions other than the installed one:
# the virtual functions that only newer versions have are used in no other build.
#
# usage: torch_headers.sh PYTHON VERSION...
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
python_headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')

# All of it at once: torch's headers take longer to read than everything else.
whole=build/torch-headers/whole.cpp
mkdir -p "$(dirname "$whole")"
printf '#include "%s"\n' "$PWD"/bindings/torch/*.cpp > "$whole"

compile() {
  local version=$1 folder=build/torch-headers/$1
  if ! .ci/fetch_torch_headers.sh "$python" "$version"; then
    echo "torch $version: skipped, waits for its wheel to be downloadable"
    return
  fi
  c++ -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
    -Inative -Ibindings -Ibindings/torch -DHOLDFAST_TORCH_VERSION='"0"' \
    -DHOLDFAST_TORCH_MODULE=_c10d \
    -isystem "$folder/torch/include" -isystem "$folder/torch/include/torch/csrc/api/include" \
    -isystem "$python_headers" "$whole" || return
  echo "torch $version: the backend compiles against its headers"
}
export -f compile
export python python_headers whole
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -I{} bash -euo pipefail -c 'compile "$1"' _ {}
