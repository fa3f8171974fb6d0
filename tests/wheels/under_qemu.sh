#!/usr/bin/env bash
# Installs a wheel for 64-bit ARM beside Debian's Python for it, and runs that by an emulator:
# `holdfast info`, and an all_reduce of two ranks. Each rank has a PID namespace of its own: qemu
# makes up when its process began, and a rank that finds another time takes the first for dead.
# Only the Python of this Debian is tried, and no torch. Needs root, or user namespaces.
# usage: under_qemu.sh PYTHON WHEEL     (PYTHON's pip fetches NumPy and xxhash for ARM)
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(command -v "$1")
version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
wheel=$(realpath "$2")
if [[ $wheel != *-"cp${version/./}"-* ]]; then
  echo "under_qemu: not tried, Debian's Python is $version here"
  exit 0
fi
root=$PWD/build/wheels-qemu/root
work=$PWD/build/wheels-qemu/work
.ci/foreign_packages.sh aarch64 "$root" "python$version-minimal" "libpython$version-minimal" \
  "libpython$version-stdlib" libc6 libstdc++6 libgcc-s1 libexpat1 zlib1g libffi8 libssl3
rm -rf "$work"
mkdir -p "$work/store"
"$python" -m pip install --quiet --target "$work/site" --only-binary=:all: \
  --python-version "$version" --platform manylinux_2_34_aarch64 --platform manylinux_2_28_aarch64 \
  --platform manylinux_2_17_aarch64 "$wheel"

export PYTHONPATH=$work/site
libraries=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu
emulated=(timeout 300 qemu-aarch64 -L "$root" -E "LD_LIBRARY_PATH=$libraries"
  -E "PYTHONHOME=$root/usr" "$root/usr/bin/python$version")
cd "$work"
"${emulated[@]}" -m holdfast.cli info > info.txt
head -n 4 info.txt
grep -q 'reductions use NEON' info.txt
cat > ranks.py <<'PYTHON'
import platform
import numpy as np
import holdfast

with holdfast.init() as group:
    x = np.full(100_000, group.rank + 1.0, np.float32)
    group.all_reduce(x)
    assert (x == 3).all(), x
    print(f"rank {group.rank} of {group.size} on {platform.machine()}: the sum is right")
PYTHON
own=(unshare --pid --fork)
[[ $(id -u) -eq 0 ]] || own=(unshare --user --map-root-user --pid --fork)
export WORLD_SIZE=2 HOLDFAST_STORE=file://$work/store
RANK=1 "${own[@]}" "${emulated[@]}" ranks.py &
RANK=0 "${own[@]}" "${emulated[@]}" ranks.py
wait $!  # and rank 1
echo "under_qemu: yes"
