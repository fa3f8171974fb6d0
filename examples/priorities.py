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
from typing import NamedTuple

import numpy as np

import holdfast


class Passed(NamedTuple):
    """How a small op did among large ones that were started before it."""

    urgent: float  # seconds until the small one had ended
    whole: float  # and until all had
    under_way: int  # large ones that had not ended when the small one had


def passed(group: holdfast.Group, bulk: list[np.ndarray], priority: int) -> Passed:
    """Start the large ops and then the small one, and see how it does among them."""
    for array in bulk:
        array.fill(1.0)
    small = np.full(10_000, group.rank + 1.0, np.float32)
    group.barrier()
    start = time.monotonic()
    works = [group.all_reduce(array, async_op=True) for array in bulk]
    group.all_reduce(small, priority=priority)
    urgent = time.monotonic() - start
    under_way = sum(not work.done() for work in works)
    for work in works:
        work.wait()
    assert small[0] == small[-1] == group.size * (group.size + 1) / 2
    assert all(array[0] == array[-1] == group.size for array in bulk)
    return Passed(urgent, time.monotonic() - start, under_way)


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
        passed(group, bulk, 0)
        # In turns, so that whatever else the machine does hits both.
        rounds: dict[int, list[Passed]] = {0: [], 5: []}
        for _ in range(arguments.rounds):
            for priority, found in rounds.items():
                found.append(passed(group, bulk, priority))
        queued, urgent = (statistics.median(r.urgent for r in rounds[p]) for p in (0, 5))
        whole = statistics.median(r.whole for r in rounds[5])
        under_way = max(r.under_way for r in rounds[5])
        if group.rank == 0:
            print(
                f"a small sum behind {arguments.ops} x {arguments.megabytes} MiB: "
                f"{1e3 * urgent:.1f} ms with priority 5, {1e3 * queued:.1f} ms without "
                f"({queued / urgent:.1f} times as long); it passed {under_way} of the large ones; "
                f"all have ended after {1e3 * whole:.1f} ms"
            )
        assert under_way > 0, "the small sum ended after all large ones, in every round"


if __name__ == "__main__":
    main()
