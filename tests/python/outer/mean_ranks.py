"""Programs of test_outer_means.py: weighted means of trainers, each function one rank."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch_world import join

import holdfast
from holdfast.compress import GroupExchange
from holdfast.ft.outer import mean, seat


@contextlib.contextmanager
def seated() -> Iterator[seat.Seat]:
    """Of a torch process group, a group of Holdfast or an exchange over one, as FACE says."""
    codec = os.environ["CODEC"] or None
    if os.environ["FACE"] == "torch":
        join("holdfast")
        yield seat.take(None, codec, "test")
        dist.destroy_process_group()
        return
    torch.set_num_threads(1)
    with holdfast.init() as group:
        carrier = GroupExchange(group) if os.environ["FACE"] == "exchange" else group
        at = seat.take(carrier, codec, "test")
        assert at.native_group is group
        yield at


def weight_of(rank: int, step: int) -> float:
    """Of seven, one is nothing."""
    return float((rank * 5 + step) % 7)


def average(ranks: set[int], step: int) -> float:
    total = sum(weight_of(r, step) for r in ranks)
    return sum(weight_of(r, step) * 2.0**r for r in ranks) / total if total else 0.0


def lose_a_rank() -> None:
    """Until five means after the loss: each part is the mean of those who are in it."""
    count = int(os.environ["COUNT"])
    with seated() as at:
        rank, everybody = at.exchange.rank, set(at.exchange.members)
        print("ready", flush=True)
        after, step, unit = 0, 0, 1.0
        while after < 5:
            x = torch.full((count,), 2.0**rank)
            # The lowest rank's is not finite in one step of four, and counts for nothing.
            odd = rank == 0 and step % 4 == 3
            if odd:
                x[step % count] = float("nan")
            share = mean.Share(weight_of(rank, step), unit, not odd)
            found = mean.begin(at.exchange, x, share, at.codec, at.native).wait()
            counts = everybody - {0} if step % 4 == 3 else everybody
            assert found.not_finite == ((0,) if step % 4 == 3 else ()), (step, found.not_finite)
            for r, weight in found.weights.items():
                assert weight in (weight_of(r, step), unit), (r, weight)
            inside = set(found.weights)
            right = {average(inside, step)}
            # Who is lost on the way is in some parts.
            right |= {average(inside | {r}, step) for r in counts - inside}
            for value in found.value.unique().tolist():
                error = 0.1 if os.environ["CODEC"] == "int8" else 1e-5
                assert min(abs(value - one) for one in right) < error, (step, value, right, found)
            digest = 1 + zlib.crc32(found.value.numpy().tobytes())
            rows = torch.zeros(at.exchange.size, 1, dtype=torch.int64)
            at.exchange.gather(rows, torch.tensor([digest])).wait()
            there = {int(row) for row in rows.view(-1)} - {0}
            assert there == {digest}
            unit = found.unit if found.weights else unit
            after += int((rows == 0).sum()) > 0
            step += 1
        print("WEIGHED done", flush=True)
