"""What a reducer asks of a group: four collectives, each begun now and waited for later.

This is the one seam between the mathematics of this package and what carries the bytes: another
engine, or a collective that compresses on the wire, is another `Exchange`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from holdfast.compress.options import require
from holdfast.compress.weighted_mean import checked_weight, weighted_mean
from holdfast.errors import ConfigError, Unsupported

# Rows of ranks that are away are zeros: they are parts of averages, which go on without them.
LOST_ROWS = "zero"

# Backends whose AVG divides as they reduce; holdfast's divides by the ranks that are in the result.
_AVERAGING = ("holdfast", "nccl")


class Pending(Protocol):
    """An op under way."""

    def wait(self) -> object:
        """Return when its result is there; raise when it failed."""
        ...


class Exchange(Protocol):
    """Collectives over the ranks of a group; every rank calls the same ones in the same order."""

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        ...

    @property
    def size(self) -> int:
        """Ranks of the group, vacant ones included."""
        ...

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that have a member."""
        ...

    def regroup(self, members: Sequence[int]) -> None:
        """Take note of who is there from the next op on; the same on every rank.

        Parameters
        ----------
        members : sequence of int
            Ranks that have a member, this one included.
        """
        ...

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average a contiguous tensor in place; the same bits on all ranks.

        Parameters
        ----------
        tensor : torch.Tensor
            Floating; its shape is the same on all ranks.
        codec : str, optional
            A wire format; None: the tensor's own dtype.
        weight : float, optional
            How much this rank's tensor counts, 0 or more; all ranks give one, or none does. 0:
            nothing, whatever the tensor holds; where all are 0, the average is zeros.

        Returns
        -------
        Pending
            The op, whose end makes the average valid.
        """
        ...

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up a contiguous tensor in place; the same bits on all ranks.

        Parameters
        ----------
        tensor : torch.Tensor
            Its shape and dtype are the same on all ranks.

        Returns
        -------
        Pending
            The op, whose end makes the sum valid.
        """
        ...

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Send a row to each rank, and receive one from each.

        Parameters
        ----------
        received : torch.Tensor
            Shape (size, k); row r comes from rank r.
        sent : torch.Tensor
            Shape (size, k), other memory; row r goes to rank r.

        Returns
        -------
        Pending
            The op, whose end makes `received` valid; zeros from ranks that are away.
        """
        ...

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Give everybody everybody's row.

        Parameters
        ----------
        rows : torch.Tensor
            Shape (size, k); row r becomes rank r's.
        own : torch.Tensor
            Shape (k,), this rank's row.

        Returns
        -------
        Pending
            The op, whose end makes `rows` valid; zeros from ranks that are away.
        """
        ...


@contextlib.contextmanager
def _holes_are_zeros(group: Any, device: torch.device) -> Iterator[None]:
    """As `holdfast.on_hole` does, which is above this package."""
    if dist.get_backend(group) != "holdfast":
        yield
        return
    of: Any = group or dist.group.WORLD
    backend = of._get_backend(device)
    before, backend.on_hole = backend.on_hole, LOST_ROWS
    try:
        yield
    finally:
        backend.on_hole = before


# torch is renaming it.
_GATHER: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

Reduction = Generator[Pending, None, None]
"""Computes, begins an op, yields it, and goes on after somebody has waited for it; ends when the
tensors that it was made for hold their averages. Closed early, it rolls back."""


class CompressedMean(Protocol):
    """An average that costs fewer bytes and keeps its own residuals."""

    def mean(self, name: str, tensors: Sequence[torch.Tensor]) -> Reduction:
        """Average tensors in place, all in one; the same bits on all ranks.

        Parameters
        ----------
        name : str
            Of the residuals; the shapes under one name stay the same.
        tensors : sequence of torch.Tensor
            Floating, of the same shapes on all ranks.

        Returns
        -------
        Reduction
            What runs it.
        """
        ...


class Done:
    """An op that has nothing to wait for."""

    def wait(self) -> None:
        """Return at once."""


class _Division:
    """A sum under way, to be made an average."""

    def __init__(self, work: Pending, tensor: torch.Tensor, count: int) -> None:
        self._work = work
        self._tensor = tensor
        self._count = count

    def wait(self) -> None:
        self._work.wait()
        self._tensor.div_(self._count)


class Alone:
    """The exchange of a group of one: for single processes, and for tests."""

    rank = 0
    size = 1
    members: tuple[int, ...] = (0,)

    def regroup(self, members: Sequence[int]) -> None:
        """There is nobody else."""
        require(tuple(members) == (0,), "members", tuple(members), "(0,)")

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Leave it as it is; with a weight of 0, zeros."""
        if checked_weight(weight) == 0:
            tensor.zero_()
        return Done()

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Leave it as it is."""
        return Done()

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Copy."""
        received.copy_(sent)
        return Done()

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Copy."""
        rows.copy_(own.view_as(rows))
        return Done()


class ProcessGroupExchange:
    """The exchange over a torch process group, of any backend.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        Default: the world, looked up at the first use.
    """

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self._members: tuple[int, ...] | None = None

    def _started(self) -> Any:
        if not dist.is_initialized():
            raise ConfigError(
                "torch.distributed is not initialised; call init_process_group() first, or pass "
                "exchange=holdfast.compress.Alone()"
            )
        return self._group

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return dist.get_rank(self._started())

    @property
    def size(self) -> int:
        """Ranks of the group, vacant ones included."""
        return dist.get_world_size(self._started())

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that have a member: all, until `regroup` says otherwise."""
        return tuple(range(self.size)) if self._members is None else self._members

    def regroup(self, members: Sequence[int]) -> None:
        """Take note of who is there.

        Parameters
        ----------
        members : sequence of int
            Their ranks, as ``holdfast.advance(group).ranks`` has them.

        Raises
        ------
        ConfigError
            When this rank is not among them, or one is not of the group.
        """
        ranks = tuple(sorted(set(members)))
        fits = self.rank in ranks and ranks[0] >= 0 and ranks[-1] < self.size
        require(
            fits, "members", tuple(members), f"ranks below {self.size}, this one ({self.rank}) too"
        )
        self._members = ranks

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place.

        With a weight the tensor is multiplied by it, summed up, and divided by the sum of the
        weights, which an op of its own adds up: whoever is lost between the two is in one of them
        only, where `GroupExchange` has each part divided by the weights that are in it.

        Raises
        ------
        Unsupported
            With a codec: a plain process group sends tensors as they are.
        """
        if codec is not None:
            raise Unsupported(
                f"codec = {codec!r}: this exchange sends tensors as they are; pass "
                "an exchange= that has the codec, or leave it out"
            )
        group = self._started()
        if (counts := checked_weight(weight)) is not None:
            return weighted_mean(self, tensor, counts)
        if dist.get_backend(group) in _AVERAGING:
            return self._begun(dist.all_reduce(tensor, dist.ReduceOp.AVG, group, async_op=True))
        work = self._begun(dist.all_reduce(tensor, dist.ReduceOp.SUM, group, async_op=True))
        return _Division(work, tensor, len(self.members))

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up in place."""
        group = self._started()
        return self._begun(dist.all_reduce(tensor, dist.ReduceOp.SUM, group, async_op=True))

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Exchange rows."""
        group = self._started()
        with _holes_are_zeros(group, sent.device):
            return self._begun(dist.all_to_all_single(received, sent, group=group, async_op=True))

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Collect rows."""
        flat = rows.view(-1)
        group = self._started()
        with _holes_are_zeros(group, own.device):
            return self._begun(_GATHER(flat, own, group=group, async_op=True))

    @staticmethod
    def _begun(work: Any) -> Pending:
        if work is None:
            raise ConfigError("this process is not a rank of the group")
        pending: Pending = work
        return pending


def choose(group: Any, exchange: Exchange | None) -> Exchange:
    """Return the exchange that a caller's two arguments mean.

    Parameters
    ----------
    group : ProcessGroup, optional
        For the default exchange.
    exchange : Exchange, optional
        Instead of it.

    Raises
    ------
    ConfigError
        When both are given.
    """
    if exchange is None:
        return ProcessGroupExchange(group)
    require(group is None, "group", group, "None beside exchange=...")
    return exchange
