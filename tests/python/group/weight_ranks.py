"""Programs of test_weights.py: averages by weights, each function one rank."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from array_ranks import equal, refused, world

import holdfast
from holdfast import Group
from holdfast.compress import GroupExchange, ProcessGroupExchange

COUNTS = (0, 1, 7, 1000, 300_001)


def weight_of(rank: int) -> float:
    """Rank 1 counts nothing."""
    return 0.0 if rank == 1 else 10.0 + 7 * rank


def given(rank: int, count: int) -> np.ndarray:
    return np.random.default_rng([rank, count]).normal(size=count)


def mean(size: int, count: int, weights: Any = weight_of) -> np.ndarray:
    total = sum(weights(r) for r in range(size))
    return sum(weights(r) / total * given(r, count) for r in range(size))


def agree(group: Group, array: np.ndarray) -> None:
    """All ranks hold the same bits."""
    own = np.array([zlib.crc32(array.tobytes())], np.int64)
    least, most = own.copy(), own.copy()
    group.all_reduce(least, op="min")
    group.all_reduce(most, op="max")
    assert least[0] == own[0] == most[0]


@world
def every_dtype(group: Group) -> None:
    for count in COUNTS:
        for dtype, error in (
            (torch.float64, 1e-12),
            (torch.float32, 1e-5),
            (torch.float16, 5e-3),
            (torch.bfloat16, 4e-2),
            (torch.complex64, 1e-5),
        ):
            x = torch.from_numpy(given(group.rank, count)).to(dtype)
            if group.rank == 1 and count > 0:
                x.fill_(float("nan"))
            group.all_reduce(x, op="avg", weight=weight_of(group.rank))
            wide = x.to(torch.complex128 if dtype.is_complex else torch.float64).numpy()
            assert np.allclose(wide, mean(group.size, count), rtol=0, atol=error), dtype
            agree(group, x.view(torch.uint8).numpy() if count else np.zeros(0))


@world
def samples_do_not_overflow(group: Group) -> None:
    x = np.full(100, 3.0, dtype=np.float16)
    group.all_reduce(x, op="avg", weight=1_000_000 + group.rank)
    assert np.allclose(x, 3, atol=0.01)


@world
def blocks(group: Group) -> None:
    whole = given(group.rank, 6 * group.size)
    out = np.zeros(6)
    work = group.reduce_scatter(out, whole, "avg", async_op=True, weight=weight_of(group.rank))
    assert work is not None
    work.wait(30)
    at = slice(6 * group.rank, 6 * group.rank + 6)
    assert np.allclose(out, mean(group.size, 6 * group.size)[at])


@world
def codecs(group: Group) -> None:
    for codec, error in (("bf16", 0.05), ("int8", 0.1), ("int4", 1.5)):
        owed = np.full(3000, 0.25, np.float32)
        x = given(group.rank, 3000).astype(np.float32)
        group.all_reduce(x, op="avg", codec=codec, residual=owed, weight=weight_of(group.rank))
        assert np.allclose(x, mean(group.size, 3000) + 0.25, atol=error), codec
        agree(group, x)
        if group.rank == 1:
            equal(owed, np.full(3000, 0.25))


@world
def nobody_has_a_weight(group: Group) -> None:
    for count in (5, 100_000):
        x = np.full(count, np.nan, np.float32)
        group.all_reduce(x, op="avg", weight=0)
        equal(x, np.zeros(count))
        assert group.outcome is not None
        assert group.outcome.contributors == tuple(range(group.size))


@world
def equal_weights(group: Group) -> None:
    for count in (5, 1000, 200_000):
        by_weight = given(group.rank, count).astype(np.float32)
        plain = by_weight.copy()
        group.all_reduce(by_weight, op="avg", weight=48)
        group.all_reduce(plain, op="avg")
        equal(by_weight, plain)


@world
def bad_weights(group: Group) -> None:
    x = np.ones(3)
    for weight in (-1, float("nan"), float("inf"), "many", -0.5):
        refused(
            holdfast.ConfigError,
            lambda weight=weight: group.all_reduce(x, op="avg", weight=weight),
            f"weight = {weight!r}",
            "0 or more",
        )
    refused(holdfast.ConfigError, lambda: group.all_reduce(x, weight=2), "weight = 2", "avg")
    whole = np.ones(3, np.int32)
    refused(
        holdfast.Unsupported,
        lambda: group.all_reduce(whole, op="avg", weight=2),
        "i32",
        "bf16, f8_e4m3",
    )
    group.all_reduce(x, op="avg", weight=1)
    equal(x, np.ones(3))


@world
def not_all_weigh(group: Group) -> None:
    x = np.ones(int(os.environ["COUNT"]))
    weight = None if group.rank == 0 else 3.0
    refused(
        holdfast.ProtocolError,
        lambda: group.all_reduce(x, op="avg", weight=weight),
        "do not match",
        f"rank 0 called all_reduce #0 (f64, {x.size} elements, avg);",
        f"called all_reduce #0 (f64, {x.size} elements, avg by weights)",
    )


@world
def exchange(group: Group) -> None:
    x = torch.from_numpy(given(group.rank, 100))
    GroupExchange(group).mean(x, weight=weight_of(group.rank)).wait()
    assert np.allclose(x.numpy(), mean(group.size, 100))
    GroupExchange(group).mean(x.float(), "int8", weight_of(group.rank)).wait()


def over_torch() -> None:
    """The default of an exchange, over gloo and over Holdfast's own backend."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for backend in ("gloo", "holdfast"):
        meeting = f"file://{os.environ['MEETING_FILE']}_{backend}"
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=size)
        exchange = ProcessGroupExchange()
        x = torch.from_numpy(given(rank, 100))
        if rank == 1:
            x.fill_(float("nan"))
        exchange.mean(x, weight=weight_of(rank)).wait()
        assert np.allclose(x.numpy(), mean(size, 100))
        exchange.mean(x, weight=0).wait()
        equal(x, np.zeros(100))
        refused(holdfast.ConfigError, lambda e=exchange: e.mean(torch.ones(2), weight=-1), "-1")
        dist.destroy_process_group()


def lose_a_rank() -> None:
    """Until five ops after the loss: each part is the mean of those who can be in it."""
    count = int(os.environ["COUNT"])
    codec = os.environ["CODEC"] or None
    with holdfast.init() as group:
        rank = group.rank
        print("ready", flush=True)
        after, step = 0, 0
        while after < 5:

            def weight(r: int, step: int = step) -> float:
                return float((r * 5 + step) % 7)

            def average(ranks: set[int], weight: Any = weight) -> float:
                total = sum(weight(r) for r in ranks)
                return sum(weight(r) * 2.0**r for r in ranks) / total if total else 0.0

            x = np.full(count, 2.0**rank, np.float32)
            owed = np.zeros(count, np.float32) if codec else None
            group.all_reduce(x, op="avg", codec=codec, residual=owed, weight=weight(rank))
            outcome = group.outcome
            assert outcome is not None
            sure = set(outcome.contributors)
            right = [average(sure), average(sure | set(outcome.missing))]
            for value in np.unique(x):
                error = 0.1 if codec else 1e-5
                assert min(abs(value - one) for one in right) < error, (value, right, outcome)
            agree(group, x)
            after += 1 if outcome.missing else 0
            step += 1
        print("WEIGHED done", flush=True)
