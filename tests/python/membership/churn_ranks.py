"""What a rank does while others are killed: ops whose every element tells who is in it."""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path

import numpy as np

import holdfast


def factor(step: int) -> int:
    """Another one each step, so that bytes of an earlier op are told from this one's."""
    return 1 + step % 11


def check_reduced(result: np.ndarray, step: int, outcome: holdfast.Outcome) -> None:
    """Every element is the sum of a set of ranks: all contributors, perhaps some of the missing."""
    masks, rest = np.divmod(np.unique(result), factor(step))
    assert not rest.any(), f"step {step}: not of this step: {np.unique(result)[:5]}"
    sure = sum(1 << r for r in outcome.contributors)
    perhaps = sure | sum(1 << r for r in outcome.missing)
    for mask in masks.astype(int):
        assert mask & sure == sure, f"step {step}: {mask:b} lacks some of {outcome}"
        assert mask & ~perhaps == 0, f"step {step}: {mask:b} has others than {outcome}"


def all_reduce(group: holdfast.Group, count: int, step: int) -> np.ndarray:
    data = np.full(count, (1 << group.rank) * factor(step), np.float32)
    group.all_reduce(data)
    assert group.outcome is not None
    check_reduced(data, step, group.outcome)
    return data


def all_to_all(group: holdfast.Group, count: int, step: int) -> np.ndarray:
    block = max(1, count // group.size)
    give = np.repeat(
        np.array([1 + group.rank * 100 + d for d in range(group.size)], np.float32) * factor(step),
        block,
    )
    take = np.full(block * group.size, -1, np.float32)
    group.all_to_all(take, give, on_hole="zero")
    assert group.outcome is not None
    for source in range(group.size):
        part = np.unique(take[source * block : (source + 1) * block])
        full = (1 + source * 100 + group.rank) * factor(step)
        if source in group.outcome.contributors:
            assert part.tolist() == [full], f"step {step}, from {source}: {part[:4]}"
        else:
            assert set(part.tolist()) <= {0.0, full}, f"step {step}, from {source}: {part[:4]}"
    # Blocks differ from rank to rank by intent; the log compares what all must agree on.
    return np.zeros(1, np.float32)


def all_gather(group: holdfast.Group, count: int, step: int) -> np.ndarray:
    """All of it, or an error that names those who are away; the log has whom."""
    block = max(1, count // group.size)
    take = np.full((group.size, block), -1, np.float32)
    give = np.full(block, (1 + group.rank) * factor(step), np.float32)
    try:
        group.all_gather(take, give)
    except holdfast.PeerLost as error:
        return np.array([-1, *error.ranks], np.float32)
    assert (take == (1 + np.arange(group.size))[:, None] * factor(step)).all(), f"step {step}"
    return take


OPS = {"all_reduce": all_reduce, "all_to_all": all_to_all, "all_gather": all_gather}


def loop() -> None:
    """Run ops until the stop file appears; write what each one gave."""
    here = Path(os.environ["LOG_DIR"])
    op = OPS[os.environ["COLLECTIVE"]]
    count = int(os.environ["BYTES"]) // 4
    with holdfast.init() as group:
        log = (here / f"rank{group.rank}.log").open("w", buffering=1)
        print("ready", flush=True)
        step = 0
        while True:
            begun = time.monotonic()
            result = op(group, count, step)
            took = time.monotonic() - begun
            # With an error the op before it has the last outcome.
            line = {
                "step": step,
                "crc": zlib.crc32(result.tobytes()),
                "outcome": group.outcome,
                "end": time.monotonic(),
                "took": took,
            }
            log.write(json.dumps(line) + "\n")
            flag = np.array([(here / "stop").exists()], np.int32)
            group.all_reduce(flag, op="max")
            if flag[0]:
                break
            step += 1
        print(f"steps {step}", flush=True)


def step_with_newcomers() -> None:
    """Sum and pass a boundary, step by step; the step is whatever the furthest rank has."""
    steps = int(os.environ["STEPS"])
    with holdfast.init() as group:
        print("ready", group.epoch, flush=True)
        step, sums = 0, []
        while step < steps:
            view = group.advance()
            counter = np.array([step], np.int64)
            group.all_reduce(counter, op="max")
            step = int(counter[0]) + 1
            data = np.full(10_000, 1 << group.rank, np.float32)
            group.all_reduce(data)
            assert group.outcome is not None
            check_reduced(data, 0, group.outcome)
            sums.append((step, view.epoch, int(data[0])))
            time.sleep(0.005)
        print("END", json.dumps([sums[-1], group.live_ranks]), flush=True)
