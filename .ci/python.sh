#!/usr/bin/env bash
# Makes the virtual environment and puts into it what is missing.
#   .ci/python.sh venv DIR             create it; sees the system's packages where torch is one
#   .ci/python.sh torch DIR            install torch, unless a usable one is importable
#   .ci/python.sh extras DIR NAME...   install what pyproject.toml lists under these extras, and
#                                      under "build" what builds the wheel
#   .ci/python.sh cuda DIR             install nvcc (346 MB), unless a usable one is at hand
set -euo pipefail

python=${PYTHON:-python3}
torch=${TORCH:-torch==2.13.0}
action=$1
dir=$2
shift 2

# Imports it: metadata alone does not tell whether its libraries load.
usable_torch='
import sys
import torch
sys.exit(tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 11))'

requirements='
import sys
try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    tables = tomllib.load(file)
project = tables["project"]
extras = {**project["optional-dependencies"], "build": tables["build-system"]["requires"]}
wanted = list(project["dependencies"])
for extra in sys.argv[1:]:
    wanted += extras[extra]
print("\n".join(wanted))'

# As cmake/cuda.cmake has it: what knows --compress-mode.
usable_nvcc() {
  local nvcc release
  for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-}/bin/nvcc"; do
    release=$("$nvcc" --version 2>/dev/null | sed -nE 's/.*release ([0-9]+)\.([0-9]+).*/\1 \2/p')
    [ -z "$release" ] || [ "$((${release% *} * 100 + ${release#* }))" -lt 1208 ] || return 0
  done
  return 1
}

pip() { "$dir/bin/python" -m pip --disable-pip-version-check "$@"; }

case $action in
  venv)
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
      echo "Holdfast needs Python 3.10 or newer, and $python is $("$python" -V)." >&2
      echo "Name another one: make PYTHON=python3.12 ..." >&2
      exit 1
    fi
    flags=()
    if "$python" -c "$usable_torch" >/dev/null 2>&1; then flags=(--system-site-packages); fi
    "$python" -m venv "${flags[@]}" "$dir"
    ;;
  torch)
    if "$dir/bin/python" -c "$usable_torch" >/dev/null 2>&1; then exit 0; fi
    pip install "$torch"
    ;;
  extras)
    "$dir/bin/python" -c "$requirements" "$@" > "$dir/requirements.txt"
    pip install --quiet -r "$dir/requirements.txt"
    ;;
  cuda)
    if usable_nvcc; then exit 0; fi
    "$0" extras "$dir" cuda-build
    ;;
  *)
    echo "python.sh: no such action: $action" >&2
    exit 2
    ;;
esac
