"""all_reduce on device memory, by each path, on one GPU.

    python tests/bench/device_paths.py --ranks 2,4 --sizes 1048576,268435456
    python tests/bench/device_paths.py --ranks 2,4 --sizes 1048576,268435456 --codec int8

Without a codec from device to device and through the host; with one encoded by the device, and
through the host by the processor.

Prints JSON lines: time and bandwidth by path, and how much of the time copies of the same bytes
would take that the device makes for one process alone (`of_copy_bound`; 1 is the most there is,
for ranks that share a GPU). `ratio` is that of the path through the host by the other one.
`--driver emulated` runs it without a GPU, which says nothing about speed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from ranks import run_ranks

LIMIT_S = 500.0
OPTIONS = {"direct": "HOLDFAST_CUDA_IPC", "coded": "HOLDFAST_CUDA_CODEC"}


def rows(
    path: str, on: bool, ranks: int, sizes: str, driver: str, codec: str
) -> list[dict[str, Any]]:
    """What rank 0 says of each size, with the path or through the host."""
    env = {
        "HOLDFAST_CUDA_DRIVER": driver,
        OPTIONS[path]: "auto" if on else "off",
        f"{OPTIONS[path]}_MIN_BYTES": "1",
        "PATH_NAME": path if on else "staged",
        "PATH_CODEC": codec,
        "SIZES": sizes,
    }
    with tempfile.TemporaryDirectory() as here:
        outcomes = run_ranks(
            "device_paths_ranks", "measure", ranks, Path(here), env=env, timeout_s=LIMIT_S
        )
    lines = outcomes[0].output.splitlines()
    return [json.loads(line[4:]) for line in lines if line.startswith("ROW ")]


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4", help="how many ranks share the GPU")
    parser.add_argument("--sizes", default="65536,1048576,16777216,268435456", help="bytes")
    parser.add_argument("--driver", default="", help="as the option cuda_driver")
    parser.add_argument("--codec", default="", help="as codec= of the calls; none without")
    arguments = parser.parse_args()
    path = "coded" if arguments.codec else "direct"
    more = (arguments.sizes, arguments.driver, arguments.codec)
    for ranks in map(int, arguments.ranks.split(",")):
        staged = rows(path, False, ranks, *more)
        other = rows(path, True, ranks, *more)
        for slow, fast in zip(staged, other, strict=True):
            print(json.dumps(slow))
            print(json.dumps({**fast, "ratio": round(slow["time_us"] / fast["time_us"], 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
