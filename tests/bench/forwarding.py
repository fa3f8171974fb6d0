"""How full a long path gets when a rank passes on what comes over it: a ring over two places.

    python tests/bench/forwarding.py --mbit 1000 --delay-ms 75 --mebibytes 128

Prints Markdown: what all_reduce of `--ranks` by a ring takes, in rounds, the first one included,
and what the path alone would take. The ranks are at the two ends in turn, and the path between them
is emulated (tests/python/support/emulated_path.py), with packets of 60,000 bytes, since small ones
are more than the emulator moves in time, and buffers in which the kernel can keep it full. Needs
root, `ip` and /dev/net/tun; says what is missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import finish, start_rank

LIMIT_S = 300.0
PACKET_BYTES = 60_000
BUFFERS = "4096 131072 134217728"
QUEUE_MS = 400.0


def all_reduce_in_rounds() -> None:
    import holdfast

    array = np.zeros(int(os.environ["BENCH_BYTES"]) // 4, np.float32)
    took = []
    with holdfast.init() as group:
        for _ in range(int(os.environ["BENCH_ROUNDS"])):
            group.barrier()
            begun = time.monotonic()
            group.all_reduce(array)
            took.append(time.monotonic() - begun)
    print("TOLD", json.dumps(took), flush=True)


def prepare(path: LongPath, arguments: argparse.Namespace) -> None:
    path.set("both", delay_ms=arguments.delay_ms, mbit=arguments.mbit, queue_ms=QUEUE_MS)
    for place, space in enumerate(path.places):
        device = ("ip", "-n", space, "link", "set", "wan", "mtu", str(PACKET_BYTES))
        subprocess.run(device, check=True, timeout=LIMIT_S)
        for name in ("tcp_rmem", "tcp_wmem"):
            setting = ("sysctl", "-qw", f"net.ipv4.{name}={BUFFERS}")
            subprocess.run((*path.inside(place), *setting), check=True, timeout=LIMIT_S)


def run(path: LongPath, arguments: argparse.Namespace) -> list[float]:
    with tempfile.TemporaryDirectory() as here:
        processes = []
        for rank in range(arguments.ranks):
            place = rank % 2
            env = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ALGORITHM": "ring",
                "HOLDFAST_ADDRESS": path.address(place),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "BENCH_BYTES": str(arguments.mebibytes << 20),
                "BENCH_ROUNDS": str(arguments.rounds),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, arguments.ranks, Path(here), env, path.inside(place))
            processes.append(start_rank("forwarding", "all_reduce_in_rounds", *at))
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    (line,) = [x for x in outcomes[0].output.splitlines() if x.startswith("TOLD ")]
    return list(map(float, json.loads(line.removeprefix("TOLD "))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--delay-ms", type=float, default=75, help="one way")
    parser.add_argument("--mebibytes", type=int, default=128)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    try:
        with LongPath() as path:
            prepare(path, arguments)
            took = run(path, arguments)
    except Unavailable as missing:
        print(missing, file=sys.stderr)
        return 2
    # Each link of the ring carries this, and those of one direction share the path.
    bits = 2 * (arguments.ranks - 1) / arguments.ranks * (arguments.mebibytes << 23)
    alone = bits * (arguments.ranks // 2) / arguments.mbit / 1e6
    print(
        f"all_reduce of {arguments.mebibytes} MiB, a ring of {arguments.ranks}, over "
        f"{arguments.mbit:g} Mbit/s and {2 * arguments.delay_ms:g} ms\n\n"
        f"| round | s |\n|---|---|\n| the path alone | {alone:.2f} |"
    )
    for number, seconds in enumerate(took):
        print(f"| {number} | {seconds:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
