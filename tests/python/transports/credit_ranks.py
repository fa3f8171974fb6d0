"""Programs of test_credit.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np

import holdfast
from holdfast import _process

# 64 KiB, the largest message that goes out unasked; more of them than a receiver keeps (256 MiB).
BYTES = 64 * 1024
COUNT = 4300
_SENT = re.compile(r'^holdfast_link_bytes_total\{[^}]*direction="sent"[^}]*\} (\S+)', re.MULTILINE)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} has not come"
        time.sleep(0.01)


def sent() -> float:
    return sum(float(count) for count in _SENT.findall(_process.node().metrics_text()))


def wait_until_no_more_is_sent() -> None:
    """Until the other keeps all that it will, or for half a minute."""
    deadline = time.monotonic() + 30
    before, now = -1e9, sent()
    while now - before > BYTES and time.monotonic() < deadline:
        time.sleep(0.7)
        before, now = now, sent()


def check_whole(group: holdfast.Group) -> None:
    """Both are there, in the view that they began in."""
    total = np.full(4, float(10**group.rank))
    group.all_reduce(total)
    assert total.tolist() == [11.0] * 4, total
    assert (group.epoch, group.live_ranks) == (1, (0, 1)), (group.epoch, group.live_ranks)


def broadcast_while_the_other_is_late() -> None:
    """Rank 1 begins all broadcasts, and sends what it can, before rank 0 begins the first."""
    group = holdfast.init()
    check_whole(group)
    ahead = Path("ahead")
    arrays = [np.full(BYTES, group.rank * (i % 251), np.uint8) for i in range(COUNT)]
    if group.rank == 0:
        wait_for(ahead)
    works = [group.broadcast(array, root=1, async_op=True) for array in arrays]
    if group.rank == 1:
        wait_until_no_more_is_sent()
        assert sent() > 200 * 2**20, "rank 1 is not ahead"
        ahead.touch()
    for work in works:
        work.wait(60)
    for i, array in enumerate(arrays):
        assert (array == i % 251).all(), (i, array)
    check_whole(group)
    group.close()
