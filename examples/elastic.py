"""An elastic group: peers join a coordinator's group, and leave it, while training goes on.

    python examples/elastic.py

starts a coordinator and two peers; a third one joins on the way and gets the others' state, and one
that is told to go leaves. By hand, on as many hosts as you like (SIGTERM, or Ctrl-C: it leaves), on
a network that only you reach, or with a secret (docs/guide/security.md):

    holdfast coordinator --insecure
    python examples/elastic.py holdfast://HOST:29400/run7

Every batch is split over whoever is there, so the model is that of a single process; each peer
trains that one as well when it leaves, and compares.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time

import numpy as np

import holdfast

BATCH, FEATURES, RATE = 60, 16, 0.1
TOLERANCE = 1e-9


def gradient(weights: np.ndarray, step: int, part: slice = slice(None)) -> np.ndarray:
    """The gradient of a linear regression, over some rows of the step's batch."""
    chance = np.random.default_rng(step)
    x = chance.standard_normal((BATCH, FEATURES))
    y = x @ np.arange(FEATURES) + chance.standard_normal(BATCH)
    return x[part].T @ (x[part] @ weights - y[part]) / BATCH


def peer(url: str) -> None:
    """Train until a signal says that it is time to go."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: told.append(got))
    members: tuple[int, ...] = ()
    with holdfast.join(url, min_peers=2) as group:
        state = {"weights": np.zeros(FEATURES), "step": np.zeros(1, np.int64)}
        group.sync(state)  # a newcomer has now what the others have, bit by bit
        while not told:
            view = group.advance()  # the step boundary: peers come in, others have left
            step = int(state["step"][0])
            if view.ranks != members:
                members = view.ranks
                print(f"peer {group.rank}: step {step} with {len(members)} peers", flush=True)
            place, count = members.index(group.rank), len(members)
            part = slice(place * BATCH // count, (place + 1) * BATCH // count)
            total = gradient(state["weights"], step, part)
            group.all_reduce(total)
            if group.outcome.contributors != members:
                continue  # somebody had gone, and its rows with it: all take the step again
            state["weights"] -= RATE * total
            state["step"] += 1
            time.sleep(0.002)  # a model has more to compute
        rank = group.rank
    alone = np.zeros(FEATURES)
    for step in range(int(state["step"][0])):
        alone -= RATE * gradient(alone, step)
    error = float(np.abs(alone - state["weights"]).max())
    assert error < TOLERANCE, error
    print(f"peer {rank}: left after step {step}, as a single process would be: {error:.0e}")


def everything() -> None:
    """Play the coordinator and all peers on this host."""
    command = [sys.executable, "-m", "holdfast.cli", "coordinator", "--port", "0"]
    # No group was here before that members might come back to: no time of grace.
    command += ["--address", "127.0.0.1", "--grace", "0"]
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = re.search(r"port (\d+)", coordinator.stdout.readline()).group(1)
    peers: list[subprocess.Popen] = []

    def begin() -> subprocess.Popen:
        one = [sys.executable, __file__, f"holdfast://127.0.0.1:{port}/demo"]
        peers.append(subprocess.Popen(one, stdout=subprocess.PIPE, text=True))
        return peers[-1]

    def await_line(process: subprocess.Popen, text: str) -> None:
        for line in process.stdout:
            print(line, end="", flush=True)
            if text in line:
                return
        raise RuntimeError(f"a peer ended before it said {text!r}")

    try:
        first, second = begin(), begin()
        await_line(first, "with 2 peers")
        await_line(second, "with 2 peers")
        third = begin()
        await_line(first, "with 3 peers")
        second.terminate()
        await_line(second, "left after")
        await_line(first, "with 2 peers")
        for last in (first, third):
            last.terminate()
            await_line(last, "left after")
        assert all(process.wait(60) == 0 for process in peers)
        print("a peer joined, one left, and nobody lost a step")
    finally:
        for process in (*peers, coordinator):
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", help="of the group; without one, all of it is started")
    url = parser.parse_args().url
    peer(url) if url else everything()


if __name__ == "__main__":
    main()
