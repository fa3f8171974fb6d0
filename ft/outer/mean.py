"""The members' mean, weighted by their samples: the one place that knows how it is made.

Each member tells its weight to all, in a table that says of whom a mean is, and sends its tensor. A
member that has nothing to say, or something that is not finite, has weight 0.

Over Holdfast (a ``holdfast.Group``, or torch's backend ``holdfast``) the runtime weighs: each part
of the mean is divided by the weights of exactly those who are in that part, whoever dies on the
way, with and without a codec. Over any other backend, such as gloo or nccl, the tensor is
multiplied by its weight before it is summed, and the sum is divided by the table's weights; those
lose no member in mid-exchange without an error, so there is nothing to be off by. The factor is in
units of the last mean weight that all have agreed on, so it is exactly 1 while the members do
equally much: then this is the plain mean. Why: docs/decisions/0178-the-runtime-weighs.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from holdfast.compress.codec import is_lossless
from holdfast.compress.exchange import Exchange, Pending

# Columns of the table: the weight in samples, 1 if the tensor was not finite, 1 of who is there,
# the samples that the tensor is of.
_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean that has arrived, the same on all members.

    Parameters
    ----------
    value : torch.Tensor
        It; zeros where nobody had a weight.
    weights : dict of int to float
        By rank, of those whose data is in all of it, in samples; empty where it came by a sync.
    not_finite : tuple of int
        Ranks that had something else than numbers to send, and count for nothing.
    is_empty : bool
        Whether nobody had a weight.
    counts : dict of int to float
        By rank, the samples that its data is of, be it in the mean or not finite.
    """

    value: torch.Tensor
    weights: dict[int, float]
    not_finite: tuple[int, ...]
    is_empty: bool
    counts: Mapping[int, float] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """The mean weight, in samples, of a mean that is not empty."""
        return sum(self.weights.values()) / len(self.weights)


def arrived(
    value: torch.Tensor,
    rows: Sequence[tuple[int, float, bool]],
    divisor: float,
    counts: Mapping[int, float],
) -> Mean:
    """Return the mean of a weighted sum.

    Parameters
    ----------
    value : torch.Tensor
        The sum; divided in place.
    rows : sequence of (int, float, bool)
        Of those who are there: rank, weight in samples, whether its tensor was not finite.
    divisor : float
        The sum of the weights, in the units of the sum.
    counts : mapping of int to float
        Samples by rank.
    """
    weights = {rank: weight for rank, weight, _ in rows if weight}
    if weights:
        value.div_(divisor)
    else:
        value.zero_()
    return Mean(value, weights, tuple(rank for rank, _, odd in rows if odd), not weights, counts)


class MeanUnderWay(Protocol):
    """A mean that has been begun."""

    def wait(self) -> Mean:
        """Return it when it is there; raise when its exchange failed."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """What a member brings to a mean beside its tensor.

    Parameters
    ----------
    weight : float
        Its samples.
    unit : float
        The mean weight that was agreed on last; above 0, the same on all members.
    finite : bool
        Whether its tensor is.
    count : float
        The samples that its tensor is of.
    """

    weight: float
    unit: float
    finite: bool
    count: float = 0.0

    @property
    def told(self) -> float:
        """The weight that counts: 0 where the tensor is not finite."""
        return self.weight if self.finite else 0.0

    def row(self) -> list[float]:
        """Return this member's row of the table."""
        return [self.told, float(not self.finite), 1.0, self.count]


def begin(
    exchange: Exchange,
    tensor: torch.Tensor,
    share: Share,
    codec: str | None = None,
    native: bool = False,
) -> MeanUnderWay:
    """Begin the weighted mean of a tensor over the members; collective.

    Parameters
    ----------
    exchange : Exchange
        What carries it.
    tensor : torch.Tensor
        Flat, floating, of one length on all members; may be overwritten.
    share : Share
        Of this member.
    codec : str, optional
        What the tensor travels as.
    native : bool
        Whether `exchange` is over Holdfast: its averages take weights, and say who is in them.
    """
    if not share.finite:
        tensor.zero_()
    if exchange.members == (exchange.rank,):
        return _Alone(tensor, share, exchange.rank)
    # Bits as integers, which no codec touches; each row has one writer, so their sum is exact.
    rows = torch.zeros(exchange.size, _COLUMNS, dtype=torch.float64)
    rows[exchange.rank] = torch.tensor(share.row(), dtype=rows.dtype)
    bits = rows.view(torch.int64).to(tensor.device)
    table = _Table(exchange.sum(bits), bits)
    dtype = tensor.dtype
    # What a codec loses is more than what float32 does, and none takes more.
    value = tensor if codec is None or is_lossless(codec) else tensor.to(torch.float32)
    if native:
        data = exchange.mean(value, codec, share.told)
        return _Weighed(table, data, value, dtype, share)
    if share.told != share.unit:
        value.mul_(share.told / share.unit)
    data = exchange.sum(value) if codec is None else exchange.mean(value, codec)
    return _Summed(table, data, value, dtype, share, codec is not None)


@dataclass(frozen=True, slots=True)
class _Alone:
    """The mean of one member is its own tensor, bit for bit."""

    value: torch.Tensor
    share: Share
    rank: int

    def wait(self) -> Mean:
        row = (self.rank, self.share.told, not self.share.finite)
        return arrived(self.value, [row], 1.0, {self.rank: self.share.count})


@dataclass(frozen=True, slots=True)
class _Table:
    """Everybody's rows under way."""

    pending: Pending
    bits: torch.Tensor

    def wait(self) -> tuple[dict[int, tuple[float, bool]], dict[int, float]]:
        """Return by rank, of those whose row has come, weight and if it was not finite; samples."""
        self.pending.wait()
        told = self.bits.cpu().view(torch.float64).tolist()
        there = {rank: row for rank, row in enumerate(told) if row[2]}
        rows = {rank: (row[0], bool(row[1])) for rank, row in there.items()}
        return rows, {rank: row[3] for rank, row in there.items()}


@dataclass(frozen=True, slots=True)
class _Summed:
    """Table and weighted sum under way; with a codec it is an average over those who are there."""

    table: _Table
    data: Pending
    value: torch.Tensor
    dtype: torch.dtype
    share: Share
    averaged: bool

    def wait(self) -> Mean:
        rows, counts = self.table.wait()
        self.data.wait()
        divisor = sum(weight for weight, _ in rows.values()) / self.share.unit
        if self.averaged:
            divisor /= max(1, len(rows))
        known = [(rank, *row) for rank, row in rows.items()]
        return arrived(self.value.to(self.dtype), known, divisor, counts)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Table and a mean that the runtime weighs under way."""

    table: _Table
    data: Any  # a Work of comm, which has an outcome
    value: torch.Tensor
    dtype: torch.dtype
    share: Share

    def wait(self) -> Mean:
        rows, counts = self.table.wait()
        self.data.wait()
        inside = self.data.outcome.contributors
        # A row may be missing where the data came: its member died, and nobody knows its weight.
        # The mean has the right one; what is told of it is the usual one.
        known = [(rank, *rows.get(rank, (self.share.unit, False))) for rank in inside]
        if not any(rows[rank][0] for rank in inside if rank in rows):
            known = [(rank, 0.0, odd) for rank, _, odd in known]
        counts = {rank: counts[rank] for rank in inside if rank in counts}
        return arrived(self.value.to(self.dtype), known, 1.0, counts)
