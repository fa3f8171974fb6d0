"""What peers do while coordinators change."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import holdfast


def peer() -> None:
    """Train until the stop file appears; say each view, and write down how far it is."""
    with holdfast.join(os.environ["URL"], min_peers=3) as group:
        print("ready", flush=True)
        progress = Path(f"steps.{os.getpid()}")
        views: dict[int, int] = {}
        steps = 0
        flag = np.zeros(1, np.int32)
        while not flag[0]:
            group.advance()
            total = np.ones(1000, np.float32)
            group.all_reduce(total)
            views.setdefault(group.epoch, len(group.live_ranks))
            steps += 1
            progress.write_text(f"{steps} {group.epoch}\n")
            flag[0] = Path("stop").exists()
            group.all_reduce(flag, op="max")
            time.sleep(0.002)
        print(f"END {json.dumps(views)}", flush=True)
