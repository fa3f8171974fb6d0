"""What a rank does with lossless codecs: moved data, sums, torch's process group, losses."""

from __future__ import annotations

import itertools
import os
import re
import zlib

import numpy as np
import pytest
import torch
import torch.distributed as dist

import holdfast
from holdfast import _core, _process

HAS_ZSTD = "zstd" in _core.codecs()
BFLOAT = ("bfloat", "bfloat(dense)") if HAS_ZSTD else ("bfloat",)
DTYPES = (
    *(np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64),
    *(np.bool_, np.complex64),
)
COUNTS = (0, 1, 5, 1000, 300_001)
_RAW = re.compile(r'^holdfast_codec_raw_bytes_total\{[^}]*codec="(\w+)"[^}]*\} (\S+)', re.MULTILINE)


def noise(rank: int, size: int, seed: int = 0) -> np.ndarray:
    """Bytes of which one in three is not zero: some runs repeat."""
    chance = np.random.default_rng([rank, size, seed])
    return np.where(chance.random(size) < 0.3, chance.integers(0, 256, size), 0).astype(np.uint8)


def array(rank: int, count: int, dtype: type, seed: int = 0) -> np.ndarray:
    if dtype is np.bool_:
        return (noise(rank, count, seed) & 1).astype(np.bool_)
    return noise(rank, count * np.dtype(dtype).itemsize, seed).view(dtype)


def halves(rank: int, count: int, seed: int = 0) -> torch.Tensor:
    """Bfloat16: Gaussian, and at the front every pattern there is, NaN and -0 and denormals."""
    chance = np.random.default_rng([rank, count, seed])
    values = torch.from_numpy(chance.standard_normal(count, dtype=np.float32)).bfloat16()
    special = torch.arange(-32768, 32768).to(torch.int16)[: count // 2]
    values.view(torch.int16)[: special.numel()] = special
    return values


def bits(x: np.ndarray | torch.Tensor) -> bytes:
    if not isinstance(x, torch.Tensor):
        return x.tobytes()
    return x.clone().view(torch.uint8).numpy().tobytes() if x.numel() > 0 else b""


def agree(group: holdfast.Group, x: np.ndarray | torch.Tensor) -> None:
    """All ranks hold the same bits."""
    own = np.array([zlib.crc32(bits(x))], np.int64)
    least, most = own.copy(), own.copy()
    group.all_reduce(least, op="min")
    group.all_reduce(most, op="max")
    assert least[0] == own[0] == most[0]


def moved_data_is_exact() -> None:
    with holdfast.init() as group:
        for count in COUNTS:
            for codec in BFLOAT:
                check_moved(group, codec, lambda r, n, s: halves(r, n, s), count)
            for dtype in DTYPES if HAS_ZSTD else ():
                check_moved(group, "zstd", lambda r, n, s, d=dtype: array(r, n, d, s), count)
            if HAS_ZSTD:
                check_moved(
                    group, holdfast.Codec("zstd", level=3), lambda r, n, s: halves(r, n, s), count
                )


def check_moved(group, codec, make, count) -> None:
    rank, size = group.rank, group.size
    given = make(rank, count, 1)
    taken = make(9, size * count, 2)
    group.all_gather(taken, given, codec=codec)
    for source in range(size):
        assert bits(taken[source * count : (source + 1) * count]) == bits(make(source, count, 1))
    copied = make(1, count, 3) if rank == 1 else make(9, count, 4)
    group.broadcast(copied, root=1, codec=codec)
    assert bits(copied) == bits(make(1, count, 3))
    # Blocks of different sizes, some of nothing.
    splits = [[(r + 2 * to) % 3 * count // 2 for to in range(size)] for r in range(size)]
    sent = make(rank, sum(splits[rank]), 5)
    inward = [splits[source][rank] for source in range(size)]
    taken = make(9, sum(inward), 6)
    group.all_to_all(taken, sent, input_splits=splits[rank], output_splits=inward, codec=codec)
    at = 0
    for source, block in enumerate(inward):
        first = sum(splits[source][:rank])
        whole = make(source, sum(splits[source]), 5)
        assert bits(taken[at : at + block]) == bits(whole[first : first + block])
        at += block


def sums_are_those_of_the_definition() -> None:
    """In float32, in rank order, rounded once: the same bits on all ranks."""
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        kinds = [(codec, torch.bfloat16) for codec in BFLOAT]
        if HAS_ZSTD:
            kinds += [("zstd", d) for d in (torch.float32, torch.bfloat16, torch.float16)]
        for (codec, dtype), count, op in itertools.product(kinds, (0, 1, 600_002), ("sum", "avg")):
            inputs = [tensor(r, count * size, dtype) for r in range(size)]
            total = inputs[0].float()
            for other in inputs[1:]:
                total = total + other.float()
            total = (total / size if op == "avg" else total).to(dtype)
            result = inputs[rank].clone()
            group.all_reduce(result, op=op, codec=codec)
            assert bits(result) == bits(total)
            agree(group, result)
            part = torch.zeros(count, dtype=dtype)
            group.reduce_scatter(part, inputs[rank], op=op, codec=codec)
            assert bits(part) == bits(total[rank * count : (rank + 1) * count])


def tensor(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    values = np.random.default_rng([rank, count]).standard_normal(count, dtype=np.float32)
    return torch.from_numpy(values).to(dtype)


def several_at_once_in_pooled_memory() -> None:
    """Many ops in flight, in memory of the pool, a root whose array cannot be written."""
    with holdfast.init() as group:
        rank, size, count = group.rank, group.size, 200_000
        codec = "zstd" if HAS_ZSTD else None
        takes, works = [], []
        for step in range(6):
            give = holdfast.empty(count, np.float32)
            give[:] = array(rank, count, np.float32, step)
            take = holdfast.empty(size * count, np.float32)
            works.append(group.all_gather(take, give, codec=codec, async_op=True))
            takes.append((take, give))
        for work in works:
            assert work is not None
            work.wait()
        for step, (take, _) in enumerate(takes):
            for r in range(size):
                assert bits(take[r * count : (r + 1) * count]) == bits(
                    array(r, count, np.float32, step)
                )
        copied = array(0, count, np.float32)
        copied.setflags(write=rank != 0)
        group.broadcast(copied, codec=codec)
        assert bits(copied) == bits(array(0, count, np.float32))


def errors_are_told() -> None:
    with holdfast.init() as group:
        data = np.ones(100_000, np.float32)
        with pytest.raises(holdfast.Unsupported, match="does not take f32; accepted: bf16"):
            group.all_reduce(data, codec="bfloat")
        with pytest.raises(holdfast.ConfigError, match="a lossy codec"):
            group.all_reduce(data.copy(), codec="zstd", residual=np.zeros_like(data))
        with pytest.raises(holdfast.Unsupported, match=r"does not take i64; accepted: .*f32"):
            group.all_reduce(np.ones(10, np.int64), codec="zstd")
        group.barrier()
        codec = "zstd" if group.rank == 0 else None
        taken = np.zeros(group.size * data.size, np.float32)
        with pytest.raises(holdfast.ProtocolError, match=r"codec zstd\(level=1\)"):
            group.all_gather(taken, data, codec=codec)


def coded_bytes() -> float:
    text = _process.node(holdfast.Options.from_env()).metrics_text()
    return sum(float(value) for _, value in _RAW.findall(text))


def the_option_exchanges_equal_blocks_exactly() -> None:
    with holdfast.init() as group:
        rank, size, count = group.rank, group.size, 50_000
        taken = torch.empty(size * count, dtype=torch.bfloat16)
        before = coded_bytes()
        group.all_to_all(taken, halves(rank, size * count))
        assert coded_bytes() > before
        for r in range(size):
            block = halves(r, size * count)[rank * count : (rank + 1) * count]
            assert bits(taken[r * count : (r + 1) * count]) == bits(block)
        # Of blocks that only their ranks know the size of, nothing is encoded unasked.
        splits = [count if to == rank else count // 2 for to in range(size)]
        uneven = torch.empty(sum(splits), dtype=torch.bfloat16)
        before = coded_bytes()
        given = halves(rank, sum(splits))
        group.all_to_all(uneven, given, input_splits=splits, output_splits=splits)
        assert coded_bytes() == before


def torch_moves_and_sums_exactly() -> None:
    """With the option, whatever the codec takes is encoded, and nothing else."""
    rank, size, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), 120_000
    method = f"file://{os.environ['MEETING_FILE']}"
    dist.init_process_group("holdfast", init_method=method, rank=rank, world_size=size)

    def encoded(call, expected: bool) -> None:
        before = coded_bytes()
        call()
        assert (coded_bytes() > before) == expected, call

    own = halves(rank, count, 1)
    copies = [torch.empty(count, dtype=torch.bfloat16) for _ in range(size)]
    encoded(lambda: dist.all_gather(copies, own), True)
    for r in range(size):
        assert bits(copies[r]) == bits(halves(r, count, 1))
    copied = halves(rank, count, 2)
    encoded(lambda: dist.broadcast(copied, src=1), rank == 1 or size > 2)
    assert bits(copied) == bits(halves(1, count, 2))
    taken = torch.empty(size * count, dtype=torch.bfloat16)
    # Whether all ranks have blocks of one size, a rank of torch's cannot know.
    encoded(lambda: dist.all_to_all_single(taken, halves(rank, size * count, 3)), False)
    for r in range(size):
        block = halves(r, size * count, 3)[rank * count : (rank + 1) * count]
        assert bits(taken[r * count : (r + 1) * count]) == bits(block)
    total = tensor(rank, count, torch.bfloat16)
    encoded(lambda: dist.all_reduce(total), True)
    exact = sum(tensor(r, count, torch.bfloat16).float() for r in range(size)).bfloat16()
    assert bits(total) == bits(exact)
    encoded(lambda: dist.all_reduce(torch.ones(count)), False)
    encoded(lambda: dist.all_reduce(torch.ones(100, dtype=torch.bfloat16)), False)
    encoded(lambda: dist.broadcast(torch.ones(count, dtype=torch.int64), src=0), False)
    dist.destroy_process_group()


def lose_a_rank() -> None:
    """Until five ops after the loss: what survivors gave is there bit by bit, the rest is zeros."""
    count = int(os.environ["COUNT"])
    with holdfast.init() as group:
        rank, size = group.rank, group.size
        print("ready", flush=True)
        after, step = 0, 0
        while after < 5:
            codec = "zstd" if HAS_ZSTD and step % 2 else "bfloat"
            taken = torch.full((size * count,), 7, dtype=torch.bfloat16)
            group.all_gather(taken, halves(rank, count), codec=codec, on_hole="zero")
            outcome = group.outcome
            assert outcome is not None
            agree(group, taken)
            for r in range(size):
                block = taken[r * count : (r + 1) * count]
                gone = r not in outcome.contributors and not block.any()
                assert gone or bits(block) == bits(halves(r, count))
            total = torch.full((count,), float(1 << rank), dtype=torch.bfloat16)
            group.all_reduce(total, codec=codec)
            summed = group.outcome
            assert summed is not None
            sure = sum(1 << r for r in summed.contributors)
            whole = sure | sum(1 << r for r in summed.missing)
            assert set(total.float().unique().tolist()) <= {float(sure), float(whole)}
            agree(group, total)
            exchanged = torch.full((size * count,), 7, dtype=torch.bfloat16)
            given = halves(rank, size * count)
            group.all_to_all(exchanged, given, codec=codec, on_hole="zero")
            for r in group.outcome.contributors if group.outcome else ():
                block = halves(r, size * count)[rank * count : (rank + 1) * count]
                assert bits(exchanged[r * count : (r + 1) * count]) == bits(block)
            after += 1 if summed.missing or outcome.missing else 0
            step += 1
        print("EXACT done", flush=True)
