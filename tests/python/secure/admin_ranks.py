"""What members do while an operator acts on their group."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

import holdfast


def step_by_step() -> None:
    """Reduce step by step until a file says to leave; write down each step, and how it ended."""
    here = Path(os.environ["HERE"])
    try:
        group = holdfast.join(os.environ["URL"], min_peers=int(os.environ["MIN_PEERS"]))
    except holdfast.HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return
    advances = os.environ.get("ADVANCES", "1") == "1"
    data = np.ones(20_000, np.float32)
    leave = np.zeros(1, np.int32)
    with (here / f"steps.{os.getpid()}").open("w", buffering=1) as steps:
        try:
            step = 0
            while not leave[0]:
                if advances or step == 0:
                    group.advance()
                data[:] = 1
                group.all_reduce(data)
                assert (data == data[0]).all()
                leave[0] = (here / "leave").exists()
                group.all_reduce(leave, op="max")
                present = len(group.live_ranks)
                steps.write(f"{group.rank} {step} {group.epoch} {present} {int(data[0])}\n")
                step += 1
                time.sleep(0.01)
            print("left", flush=True)
            group.leave()
        except holdfast.HoldfastError as error:
            (here / f"out.{os.getpid()}").write_text(f"{type(error).__name__}: {error}")
            print(f"{type(error).__name__}: {error}", flush=True)
            if os.environ.get("RETURNS"):
                try:
                    holdfast.join(os.environ["URL"]).close()
                except holdfast.HoldfastError as refused:
                    print(f"again: {type(refused).__name__}: {refused}", flush=True)
