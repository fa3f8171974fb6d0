"""What a relay carries, as a part of the rate of its own cable.

    python tests/bench/relay_rate.py --mbit 100,1000 --mebibytes 16

Two members behind NATs, and a relay with a coordinator on a public host, in network namespaces
(tests/python/support/emulated_nats.py). The members all_reduce, sealed, over the relay, whose cable
has the rate in both directions. Prints Markdown: bytes that leave the relay in the median round,
as a part of its rate. Needs root, `ip`, `tc` and `nft`; says what is missing, and ends with status
2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from emulated_nats import NatNetwork
from emulated_network import Unavailable
from ranks import finish, start_rank

from holdfast.cli import main as holdfast_command

PORT, RELAYS_PORT = 29400, 29401
PUBLIC = 2
LIMIT_S = 120


def reduces() -> None:
    """Reduce for some rounds; tell what each took."""
    import holdfast

    data = np.ones(int(os.environ["BENCH_BYTES"]) // 4, np.float32)
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        took = []
        for _ in range(int(os.environ["BENCH_ROUNDS"])):
            begun = time.monotonic()
            group.all_reduce(data, "max")
            took.append(time.monotonic() - begun)
        group.barrier()
    print("TOLD", json.dumps(took), flush=True)


def serve(network: NatNetwork, secret: str, here: Path, *command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [
            *network.inside(PUBLIC),
            *(sys.executable, "-m", "holdfast.cli", command[0], "--secret-file", secret),
            *command[1:],
        ],
        stdout=subprocess.PIPE,
        stderr=(here / "log").open("a"),
        text=True,
    )
    assert process.stdout is not None
    assert "listens" in process.stdout.readline()
    return process


def row(network: NatNetwork, secret: str, mbit: float, arguments: argparse.Namespace) -> str:
    network.even_cable(PUBLIC, mbit)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        served = [
            serve(network, secret, here, "relay", "--listen", f":{RELAYS_PORT}"),
            serve(network, secret, here, "coordinator", "--port", str(PORT), "--grace", "0"),
        ]
        env = {
            "BENCH_BYTES": str(int(arguments.mebibytes * 1024**2)),
            "BENCH_ROUNDS": str(arguments.rounds),
            "HOLDFAST_CONNECT_TIMEOUT": "30",
            "HOLDFAST_TIMEOUT": str(LIMIT_S),
            "HOLDFAST_SECRET_FILE": secret,
            "HOLDFAST_RELAY": network.endpoint(PUBLIC, RELAYS_PORT),
            "URL": f"holdfast://{network.endpoint(PUBLIC, PORT)}/job",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        members = [
            start_rank(
                *("relay_rate", "reduces", place, 2, here),
                {**env, "HOLDFAST_HOST_ID": f"host{place}"},
                network.inside(place),
            )
            for place in (0, 1)
        ]
        outcomes = finish(members, LIMIT_S)
        for process in served:
            process.terminate()
            process.wait(20)
    if any(outcome.status for outcome in outcomes):
        raise RuntimeError("\n".join(outcome.output for outcome in outcomes))
    (told,) = [line for line in outcomes[0].output.splitlines() if line.startswith("TOLD ")]
    took = statistics.median(json.loads(told.removeprefix("TOLD "))[2:])
    # Each member sends, and gets, the array once.
    sent = 2 * arguments.mebibytes * 8 * 1024**2
    return f"| {mbit:g} Mbit/s | {took:.3f} s | {sent / took / mbit / 1e6:.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", default="100,1000", help="rates of the relay's cable")
    parser.add_argument("--mebibytes", type=float, default=16, help="of a round")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        secret = f"{folder}/secret"
        holdfast_command(["secret", secret])
        try:
            print(
                f"all_reduce of {arguments.mebibytes:g} MiB by two members over a relay\n\n"
                "| the relay's cable | median round | carried, of its rate |\n|---|---|---|"
            )
            for mbit in map(float, arguments.mbit.split(",")):
                with NatNetwork(2, 1) as network:
                    print(row(network, secret, mbit, arguments), flush=True)
        except Unavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
