"""Ranks of test_close.py: they close their group while rank 2 stands still, or has died."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import holdfast


def close_without_rank_2() -> None:
    """Ranks 0 and 1 reduce, and close; rank 2 reduces again, after whatever is done to it."""
    limit = float(os.environ["CLOSE_S"])
    group = holdfast.init()
    me = group.rank
    data = np.full(1000, me + 1, np.int64)
    group.all_reduce(data)
    Path(os.environ["MEETING_FILE"]).with_name(f"pid{me}").write_text(str(os.getpid()))
    go = Path(os.environ["MEETING_FILE"]).with_name("go")
    while not go.exists():
        time.sleep(0.01)
    told: dict[str, object] = {"ended": "ok", "ranks": [], "sum": 0}
    try:
        data = np.full(1000, me + 1, np.int64)
        group.all_reduce(data)
        told["sum"] = int(data[0])
    except holdfast.NotMember:
        told["op"] = "NotMember"
    began = time.monotonic()
    try:
        group.close(limit)
    except (holdfast.Unconfirmed, holdfast.NotMember) as error:
        told["ended"] = type(error).__name__
        told["ranks"] = list(error.ranks)
        told["epoch"] = error.epoch
        told["text"] = str(error)
    told["took"] = time.monotonic() - began
    print(json.dumps(told), flush=True)
