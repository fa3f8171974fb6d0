"""What ranks do that not all can be called."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import holdfast


def until_told() -> None:
    """Sum until there is a file `stop`; all sums are checked."""
    here = Path(os.environ["HERE"])
    size = int(os.environ["PEERS"])
    begun = time.monotonic()
    group = holdfast.join(os.environ["URL"], min_peers=size)
    print(json.dumps({"joined": time.monotonic() - begun, "rank": group.rank}), flush=True)
    (here / f"joined{group.rank}").touch()
    n, ops, epoch = group.size, 0, group.epoch
    assert n == size, n
    latest = 0.0
    going = np.full(1, n)
    while going[0] == n:
        began = time.monotonic()
        going[0] = not (here / "stop").exists()
        group.all_reduce(going)
        data = np.full(20_000, (group.rank + 1) * (ops + 1), np.int64)
        group.all_reduce(data)
        latest = max(latest, time.monotonic() - began)
        assert (data == n * (n + 1) // 2 * (ops + 1)).all(), (ops, data[:4])
        ops += 1
        (here / f"ops{group.rank}").write_text(str(ops))
        rests_until = time.monotonic() + float(os.environ.get("PAUSE", "0"))
        while time.monotonic() < rests_until and not (here / "stop").exists():
            time.sleep(0.05)
    # By the last op: who is faster leaves before this rank has had its turn.
    last = group.outcome
    assert last is not None
    views, live = last.epoch - epoch, [rank for rank in range(n) if rank not in last.missing]
    told = {"views": views, "ops": ops, "latest": latest, "live": live}
    print(json.dumps(told), flush=True)
    group.close()
