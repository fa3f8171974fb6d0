#!/usr/bin/env bash
# Fetches the headers of torch VERSION, once, to build/torch-headers/VERSION/torch (include/ and
# version.py). They come from the smallest wheel, that for macOS: of what Holdfast includes, it
# differs from Linux's in the declarations of Metal's kernels alone (tests/wheels/symbols.py finds
# what would not fit). A wheel that cannot be had is an error.
# usage: fetch_torch_headers.sh PYTHON VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
version=$2
to=build/torch-headers/$version
[[ ! -e $to/torch/version.py ]] || exit 0
rm -rf "$to" "$to.new"
mkdir -p "$to.new"
trap 'rm -rf "$to.new"' EXIT

# Constraints are about what is installed, and nothing is here.
PIP_CONSTRAINT=/dev/null "$python" -m pip download --quiet --no-deps --only-binary=:all: \
  --platform macosx_14_0_arm64 --python-version 3.11 --dest "$to.new" "torch==$version"
"$python" - "$to.new" <<'PYTHON'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
wheel = next(folder.glob("*.whl"))
with zipfile.ZipFile(wheel) as files:
    wanted = ("torch/include/", "torch/version.py")
    files.extractall(folder, [n for n in files.namelist() if n.startswith(wanted)])
wheel.unlink()
PYTHON
mv "$to.new" "$to"
