"""How full a long path gets: plain TCP by its streams and congestion control, then ours beside it.

    python tests/bench/full_pipes.py --mbit 200 --delay-ms 75 --loss 0.001

Two network namespaces, and an emulated path between them (tests/python/support/emulated_path.py).
Prints Markdown: the rate, as a part of the path's, at which so many plain connections carry
`--mebibytes` one way; then of a message of ours, sealed with `--secret`; then the bus bandwidth of
our all_reduce of two ranks, and of gloo's. Needs root, `ip` and /dev/net/tun; says what is missing,
and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

import numpy as np
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import finish, start_rank

from holdfast.cli import main as holdfast_command

LIMIT_S = 300.0
PORT = 29501
PIECE_BYTES = 1 << 18


def tell(value: object) -> None:
    print("TOLD", json.dumps(value), flush=True)


def plain_receiver() -> None:
    """Take connections until the last round; answer when all of a round has come."""
    streams, rounds = int(os.environ["BENCH_STREAMS"]), int(os.environ["BENCH_ROUNDS"])
    each = int(os.environ["BENCH_BYTES"]) // streams
    with socket.create_server((os.environ["HOLDFAST_ADDRESS"], PORT)) as server:
        Path("listens").touch()
        calls = [server.accept()[0] for _ in range(streams)]

        def take(call: socket.socket) -> None:
            left, room = each, bytearray(PIECE_BYTES)
            while left > 0:
                left -= call.recv_into(room, min(left, PIECE_BYTES))

        for _ in range(rounds):
            in_threads(take, calls)
            calls[0].sendall(b".")


def plain_sender() -> None:
    """Send in rounds over so many connections, and tell what each round took."""
    streams, rounds = int(os.environ["BENCH_STREAMS"]), int(os.environ["BENCH_ROUNDS"])
    each = int(os.environ["BENCH_BYTES"]) // streams
    while not Path("listens").exists():
        time.sleep(0.01)
    calls = []
    for _ in range(streams):
        call = socket.socket()
        control = os.environ["BENCH_CONTROL"].encode()
        call.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
        call.connect((os.environ["BENCH_TO"], PORT))
        calls.append(call)
    piece = memoryview(bytes(PIECE_BYTES))

    def give(call: socket.socket) -> None:
        for at in range(0, each, PIECE_BYTES):
            call.sendall(piece[: min(PIECE_BYTES, each - at)])

    took = []
    for _ in range(rounds):
        begun = time.monotonic()
        in_threads(give, calls)
        calls[0].recv(1)
        took.append(time.monotonic() - begun)
    tell(took[1:])


def in_threads(work, calls: list[socket.socket]) -> None:
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def with_holdfast() -> None:
    """Messages one way, then all_reduce, in rounds."""
    import holdfast

    count, rounds = int(os.environ["BENCH_BYTES"]) // 4, int(os.environ["BENCH_ROUNDS"])
    array, word = np.ones(count, np.float32), np.ones(1, np.float32)
    took: dict[str, list[float]] = {"message": [], "all_reduce": []}
    with holdfast.init() as group:
        for _ in range(rounds):
            begun = time.monotonic()
            if group.rank == 0:
                group.send(array, 1)
                group.recv(word, 1)
            else:
                group.recv(array, 0)
                group.send(word, 0)
            took["message"].append(time.monotonic() - begun)
        for _ in range(rounds):
            group.barrier()
            begun = time.monotonic()
            group.all_reduce(array)
            took["all_reduce"].append(time.monotonic() - begun)
    if group.rank == 0:
        tell({name: seconds[1:] for name, seconds in took.items()})


def with_gloo() -> None:
    """all_reduce, in rounds."""
    import torch
    import torch.distributed as dist

    rank, rounds = int(os.environ["RANK"]), int(os.environ["BENCH_ROUNDS"])
    dist.init_process_group(
        "gloo", init_method=f"file://{os.environ['MEETING_FILE']}", rank=rank, world_size=2
    )
    tensor = torch.ones(int(os.environ["BENCH_BYTES"]) // 4)
    took = []
    for _ in range(rounds):
        dist.barrier()
        begun = time.monotonic()
        dist.all_reduce(tensor)
        took.append(time.monotonic() - begun)
    dist.destroy_process_group()
    if rank == 0:
        tell(took[1:])


def run(functions: tuple[str, str], path: LongPath, env: dict[str, str]) -> object:
    with tempfile.TemporaryDirectory() as here:
        processes = []
        for rank in range(2):
            own = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": path.address(rank),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_TIMEOUT": "120",
                "GLOO_SOCKET_IFNAME": "wan",
                "BENCH_TO": path.address(1),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            }
            at = (rank, 2, Path(here), {**env, **own}, path.inside(rank))
            processes.append(start_rank("full_pipes", functions[rank], *at))
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    (line,) = [x for x in outcomes[0].output.splitlines() if x.startswith("TOLD ")]
    return json.loads(line.removeprefix("TOLD "))


def controls() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def row(name: str, took: list[float], arguments: argparse.Namespace) -> float:
    """Print a row: the rate of the median, the worst round; returns the former."""
    bits = arguments.mebibytes * 8 * 1024**2
    rates = [bits / seconds / 1e6 / arguments.mbit for seconds in took]
    middle = statistics.median(rates)
    print(f"| {name} | {middle:.2f} | {min(rates):.2f} |", flush=True)
    return middle


def tables(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    path.set("both", delay_ms=arguments.delay_ms, mbit=arguments.mbit, loss=arguments.loss)
    path.set("both", queue_ms=max(50, arguments.delay_ms))
    env = {
        "BENCH_BYTES": str(arguments.mebibytes << 20),
        "BENCH_ROUNDS": str(arguments.rounds + 1),
    }
    print(
        f"{arguments.mebibytes} MiB over {arguments.mbit:g} Mbit/s, {arguments.delay_ms:g} ms one "
        f"way, loss {arguments.loss:g}\n\n| | of the path's rate | worst round |\n|---|---|---|"
    )
    best = 0.0
    for control in arguments.control.split(",") if arguments.control else controls():
        for streams in map(int, arguments.streams.split(",")):
            more = {"BENCH_STREAMS": str(streams), "BENCH_CONTROL": control}
            took = run(("plain_sender", "plain_receiver"), path, {**env, **more})
            best = max(best, row(f"plain, {streams} of {control}", took, arguments))
    more = {"HOLDFAST_SECRET_FILE": secret} if secret else {}
    took = run(("with_holdfast", "with_holdfast"), path, {**env, **more})
    message = row("a message of ours", took["message"], arguments)
    row("our all_reduce", took["all_reduce"], arguments)
    row("gloo's all_reduce", run(("with_gloo", "with_gloo"), path, env), arguments)
    print(f"\nA message of ours has {message / best:.2f} of the best plain rate.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=200)
    parser.add_argument("--delay-ms", type=float, default=75, help="one way")
    parser.add_argument("--loss", type=float, default=0, help="of packets, each way")
    parser.add_argument("--mebibytes", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", default="1,4,16", metavar="N,...")
    parser.add_argument("--control", default="", metavar="NAME,...", help="all that there are")
    parser.add_argument("--secret", action="store_true", help="our connections are sealed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        secret = f"{folder}/secret" if arguments.secret else ""
        if secret:
            holdfast_command(["secret", secret])
        try:
            with LongPath() as path:
                tables(arguments, path, secret)
        except Unavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
