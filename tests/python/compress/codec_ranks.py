"""What a rank does with codecs: every collective that takes one, and losses in the middle."""

from __future__ import annotations

import itertools
import os
import zlib

import numpy as np
import pytest

import holdfast
from holdfast import _core

LOSSY = ("bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "onebit", "topk")
COUNTS = (1, 1000, 700_001)


def values(rank: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([rank, count, seed]).standard_normal(count).astype(np.float32)


def agree(group: holdfast.Group, array: np.ndarray) -> None:
    """All ranks hold the same bits."""
    own = np.array([zlib.crc32(array.tobytes())], np.int64)
    least, most = own.copy(), own.copy()
    group.all_reduce(least, op="min")
    group.all_reduce(most, op="max")
    assert least[0] == own[0] == most[0]


def coded(codec: str, array: np.ndarray) -> np.ndarray:
    return _core.decode(codec, _core.encode(codec, array), array.size)


def every_collective() -> None:
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        for codec, count in itertools.product(LOSSY, COUNTS):
            result = values(rank, count)
            group.all_reduce(result, op="avg", codec=codec)
            agree(group, result)
            assert np.isfinite(result).all()
            copied = values(1, count, 3) if rank == 1 else np.zeros(count, np.float32)
            group.broadcast(copied, root=1, codec=codec)
            agree(group, copied)
            gathered = np.zeros(size * count, np.float32)
            group.all_gather(gathered, values(rank, count), codec=codec)
            agree(group, gathered)
        check_errors(group)
        check_exchange(group)


def check_errors(group: holdfast.Group) -> None:
    """int8: half a step of each block's scale, once per encoding."""
    rank, size = group.rank, group.size
    count = 300_000
    exact = np.mean([values(r, count).astype(np.float64) for r in range(size)], axis=0)
    result = values(rank, count)
    group.all_reduce(result, op="avg", codec=holdfast.Codec("int8", block=64))
    most = max(np.abs(values(r, count)).max() for r in range(size))
    assert np.abs(result - exact).max() <= 2 * 0.5 * most / 127 * 1.01
    block = np.zeros(count // size, np.float32)
    given = values(rank, count // size * size)
    group.reduce_scatter(block, given, codec="int8")
    sent = [values(r, count // size * size).reshape(size, -1)[rank] for r in range(size)]
    assert np.abs(block - np.sum(sent, axis=0, dtype=np.float64)).max() <= size * most / 254 * 1.01


def check_exchange(group: holdfast.Group) -> None:
    rank, size = group.rank, group.size
    count = 1000
    given = values(rank, size * count)
    taken = np.zeros(size * count, np.float32)
    group.all_to_all(taken, given, codec="int8")
    for source in range(size):
        block = values(source, size * count)[rank * count : (rank + 1) * count]
        expected = block if source == rank else coded("int8", block)
        assert (taken[source * count : (source + 1) * count] == expected).all()
    half = values(rank, 5000).astype(np.float16)
    group.all_reduce(half, codec="int8")
    agree(group, half)


def residual_is_conserved() -> None:
    """What was sent, and what is owed, are together what was put in."""
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        count = 40_000 * size
        for codec in ("int4", "onebit", "topk"):
            residual = np.zeros(count, np.float32)
            total = np.zeros(count // size, np.float64)
            for step in range(4):
                block = np.zeros(count // size, np.float32)
                given = values(rank, count, step)
                group.reduce_scatter(block, given, codec=codec, residual=residual)
                total += block
            owed = np.zeros(count // size, np.float32)
            group.reduce_scatter(owed, residual)
            put_in = sum(
                values(r, count, step).astype(np.float64) for r in range(size) for step in range(4)
            ).reshape(size, -1)[rank]
            assert np.abs(total + owed - put_in).max() < 1e-4
            assert np.abs(owed).max() > 0.1


def residual_has_both_encodings() -> None:
    """Of an all-reduce the sum is encoded, too: what that leaves out is owed by who encodes it."""
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        count = 40_000 * size
        for codec in ("int4", "onebit", "topk"):
            for op in ("sum", "avg"):
                residual = np.zeros(count, np.float32)
                total = np.zeros(count, np.float64)
                for step in range(4):
                    block = values(rank, count, step)
                    group.all_reduce(block, op=op, codec=codec, residual=residual)
                    total += block
                group.all_reduce(residual, op=op)
                put_in = sum(
                    values(r, count, step).astype(np.float64)
                    for r in range(size)
                    for step in range(4)
                ) / (size if op == "avg" else 1)
                assert np.abs(total + residual - put_in).max() < 1e-3
                assert np.abs(residual).max() > 0.1


def random_rounding_is_the_same_twice() -> None:
    codec = holdfast.Codec("int8", rounding="stochastic")
    with holdfast.init() as group:
        results = []
        for _ in range(2):
            result = values(group.rank, 10_000)
            group.all_reduce(result, codec=codec)
            agree(group, result)
            results.append(result)
        assert (results[0] != results[1]).any()  # another op, another key


def mismatch_is_told() -> None:
    with holdfast.init() as group:
        data = np.ones(100_000, np.float32)
        codec = "int8" if group.rank == 0 else holdfast.Codec("int8", block=64)
        works = [group.all_reduce(data, codec=codec, async_op=True), group.barrier(async_op=True)]
        with pytest.raises(holdfast.ProtocolError) as told:
            finish_all(works)
        assert "codec int8(block=128)" in str(told.value)
        assert "codec int8(block=64)" in str(told.value)


def finish_all(works: list[holdfast.Work | None]) -> None:
    for work in works:
        assert work is not None
        work.wait()


def options_choose_for_gradients_only() -> None:
    with holdfast.init() as group:
        size = group.size
        count = 100_000
        exact = sum(values(r, count) for r in range(size))
        large = values(group.rank, count)
        group.all_reduce(large)
        assert 0 < np.abs(large - exact).max() < 1
        agree(group, large)
        small = values(group.rank, 1000)
        group.all_reduce(small)
        assert np.allclose(small, sum(values(r, 1000) for r in range(size)), atol=1e-5)
        whole = np.full(count, 3 + group.rank, np.int32)
        group.all_reduce(whole)
        assert (whole == sum(3 + r for r in range(size))).all()
        most = values(group.rank, count)
        group.all_reduce(most, op="max")
        assert (most == np.max([values(r, count) for r in range(size)], axis=0)).all()
        copied = values(0, count) if group.rank == 0 else np.zeros(count, np.float32)
        group.broadcast(copied)
        assert (copied == values(0, count)).all()


def hosts_sum_first() -> None:
    """Whole numbers of one host's ranks sum up without loss, whatever a codec makes of each."""
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        count = 300_000
        exact = np.mean([values(r, count).astype(np.float64) for r in range(size)], axis=0)
        for _ in range(3):
            result = values(rank, count)
            group.all_reduce(result, op="avg", codec="int8")
            agree(group, result)
            assert np.abs(result - exact).max() < 2 * 0.5 * 5.5 / 127
        # Between ranks in one block, 1 beside 1000 is lost by int4; in a host's sum it is there.
        mixed = np.full(count, 1000.0 if rank == 0 else -999.0 if rank == 1 else 0.0, np.float32)
        group.all_reduce(mixed, codec="int4")
        assert np.abs(mixed - 1).max() < 0.1
        owed = np.zeros(count, np.float32)
        result = values(rank, count)
        group.all_reduce(result, codec="int8", residual=owed)
        assert np.abs(owed).max() > 0


def some_with_a_residual() -> None:
    with holdfast.init() as group:
        data = values(group.rank, 1000)
        residual = np.zeros(1000, np.float32) if group.rank == 0 else None
        with pytest.raises(holdfast.ProtocolError, match="with a residual"):
            group.all_reduce(data, codec="int8", residual=residual)


def torch_sums_are_encoded() -> None:
    """What DDP calls per bucket; broadcast, whole numbers and small sums stay as they are."""
    import torch
    import torch.distributed as dist

    rank, size, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 100_000
    method = f"file://{os.environ['MEETING_FILE']}"
    dist.init_process_group("holdfast", init_method=method, rank=rank, world_size=size)

    def total(count: int) -> torch.Tensor:
        return torch.from_numpy(sum(values(r, count) for r in range(size)))

    large = torch.from_numpy(values(rank, count))
    dist.all_reduce(large)
    assert 0 < (large - total(count)).abs().max() < 1
    copies = [torch.empty(count) for _ in range(size)]
    dist.all_gather(copies, large)
    assert all(torch.equal(copy, large) for copy in copies)
    small = torch.from_numpy(values(rank, 1000))
    dist.all_reduce(small)
    assert torch.allclose(small, total(1000), atol=1e-5)
    whole = torch.full((count,), 3 + rank)
    dist.all_reduce(whole)
    assert bool((whole == sum(3 + r for r in range(size))).all())
    copied = torch.from_numpy(values(rank, count))
    dist.broadcast(copied, src=1)
    assert torch.equal(copied, torch.from_numpy(values(1, count)))
    dist.destroy_process_group()


INPUT, OWED = 16.0, 8.0


def lose_a_rank() -> None:
    """Every element is of one kind: encoded, and nothing is owed, or as it was, and all is."""
    count = int(os.environ["COUNT"])
    with holdfast.init() as group:
        weight = float(1 << group.rank)
        print("ready", flush=True)
        after = 0
        while after < 5:
            data = np.full(count, INPUT * weight, np.float32)
            residual = np.full(count, OWED * weight, np.float32)
            group.all_reduce(data, codec="int8", residual=residual)
            outcome = group.outcome
            assert outcome is not None
            check_kinds(data, residual, outcome, weight)
            agree(group, data)
            after += 1 if outcome.missing else 0
        print("KINDS done", flush=True)


def check_kinds(
    data: np.ndarray, residual: np.ndarray, outcome: holdfast.Outcome, weight: float
) -> None:
    sure = sum(1 << r for r in outcome.contributors)
    everybody = sure | sum(1 << r for r in outcome.missing)
    paid = np.abs(residual) < 1e-2 * weight
    owed = residual == OWED * weight
    assert (paid | owed).all()
    encoded = np.unique(np.rint(data[paid] / (INPUT + OWED)))
    assert set(encoded.astype(int).tolist()) <= {sure, everybody}, (encoded, outcome)
    plain = np.unique(np.rint(data[owed] / INPUT))
    assert set(plain.astype(int).tolist()) <= {sure}, (plain, outcome)
