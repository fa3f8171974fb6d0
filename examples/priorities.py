"""An urgent small op passes the bulk ones that were started before it.

    holdfast run -n 2 examples/priorities.py

Every rank starts large sums, as gradients are, and then a small one that somebody waits for, as a
loss, a clock or a vote is. The large ones run on while the program does something else. With a
higher priority the small one goes first, piece by piece, and the others still get a share; ranks
measure how long it takes at the end of the queue, and ahead of it. That is over sockets, as between
hosts: inside a host small ops have a lane of their own and pass large ones anyway.

For torch.distributed the same is `with holdfast.priority(5):`; in C it is hf_group_set_priority().
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import holdfast


def latency(group: holdfast.Group, bulk: list[np.ndarray], priority: int) -> tuple[float, float]:
    """Seconds until the small op has ended, and until all have."""
    for array in bulk:
        array.fill(1.0)
    small = np.full(10_000, group.rank + 1.0, np.float32)
    group.barrier()
    start = time.monotonic()
    under_way = [group.all_reduce(array, async_op=True) for array in bulk]
    group.all_reduce(small, priority=priority)
    urgent = time.monotonic() - start
    for work in under_way:
        work.wait()
    assert small[0] == small[-1] == group.size * (group.size + 1) / 2
    assert all(array[0] == array[-1] == group.size for array in bulk)
    return urgent, time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=64, help="large ops under way")
    parser.add_argument("--megabytes", type=int, default=1, help="of each of them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--transport", default="tcp", help="tcp, shm or ucx")
    arguments = parser.parse_args()
    with holdfast.init(options=holdfast.Options(transports=(arguments.transport,))) as group:
        elements = arguments.megabytes * 2**20 // 4
        bulk = [np.empty(elements, np.float32) for _ in range(arguments.ops)]
        latency(group, bulk, 0)
        # In turns, so that whatever else the machine does hits both.
        seconds: dict[int, list[tuple[float, float]]] = {0: [], 5: []}
        for _ in range(arguments.rounds):
            for priority, found in seconds.items():
                found.append(latency(group, bulk, priority))
        queued, urgent = (statistics.median(u for u, _ in seconds[p]) for p in (0, 5))
        whole = statistics.median(w for _, w in seconds[5])
        if group.rank == 0:
            print(
                f"a small sum behind {arguments.ops} x {arguments.megabytes} MiB: "
                f"{1e3 * urgent:.1f} ms with priority 5, {1e3 * queued:.1f} ms without "
                f"({queued / urgent:.1f} times as long); all have ended after {1e3 * whole:.1f} ms"
            )
            assert arguments.transport != "tcp" or urgent < queued, "it did not pass the others"


if __name__ == "__main__":
    main()
