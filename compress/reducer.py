"""What all gradient reducers share: a reduction is a sequence of waits, run alone or in a pipeline.

A reduction computes, begins an op, yields it, and goes on after somebody has waited for it. Run
alone it is a plain call; under DDP the reductions of successive buckets take turns on one thread,
so that every rank begins the same collectives in the same order while backward goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from holdfast.compress.exchange import Exchange, Pending, Reduction, choose
from holdfast.compress.options import require
from holdfast.compress.residuals import Residuals
from holdfast.compress.savings import CountedExchange, method_of

Named = Sequence[tuple[str, torch.Tensor]]


class View(Protocol):
    """What ``holdfast.advance()`` returns, as far as it is needed here."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who is there."""
        ...

    @property
    def joined(self) -> tuple[int, ...]:
        """Who came in."""
        ...


class Shared:
    """The part of a reducer's state that is the same on all ranks, for ``holdfast.sync``."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer

    def state_dict(self) -> dict[str, Any]:
        """Return it, by reference."""
        return self._reducer._shared_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take it over; copies."""
        self._reducer._load_shared_state(state)


class Reducer(ABC):
    """Averages gradients over ranks, approximately, and remembers what it left out.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        Default: the world.
    exchange : Exchange, optional
        Instead of a process group.
    """

    def __init__(self, group: Any = None, exchange: Exchange | None = None) -> None:
        method = method_of(self)
        self.exchange = CountedExchange(choose(group, exchange), method)
        self.residuals = Residuals(method)
        self.shared = Shared(self)
        self.pipeline = Pipeline()
        # The parameters are kept: an id is theirs while they live.
        self._names: dict[int, tuple[torch.Tensor, str]] = {}

    @abstractmethod
    def reduction(self, gradients: Named) -> Reduction:
        """Average named gradients in place; what `__call__` and the DDP hook run.

        Parameters
        ----------
        gradients : sequence of (str, torch.Tensor)
            Names are the same on all ranks, shapes and dtypes too; all of one dtype.

        Returns
        -------
        Reduction
            What runs it.
        """

    def _shared_state(self) -> dict[str, Any]:
        return {}

    def _load_shared_state(self, state: Mapping[str, Any]) -> None:
        require(not state, "shared state", sorted(state), "an empty one")

    def __call__(self, name: str, gradient: torch.Tensor) -> torch.Tensor:
        """Average one gradient over the ranks; collective.

        For FSDP2 and for programs without DDP, for example of ``p.grad.to_local()``.

        Parameters
        ----------
        name : str
            The same on all ranks; its residual is kept under it.
        gradient : torch.Tensor
            Contiguous, floating; overwritten.

        Returns
        -------
        torch.Tensor
            The same tensor.
        """
        for pending in self.counted([(name, gradient)]):
            pending.wait()
        return gradient

    def counted(self, gradients: Named) -> Reduction:
        """Return `reduction` of these, counted as an average that is wanted.

        Parameters
        ----------
        gradients : sequence of (str, torch.Tensor)
            As for `reduction`.
        """
        self.exchange.asked(gradient for _, gradient in gradients)
        return self.reduction(gradients)

    def name_parameters(self, model: torch.nn.Module) -> None:
        """Call the model's parameters by their names; others by the order in which they come.

        Parameters
        ----------
        model : torch.nn.Module
            Built alike on all ranks.
        """
        for name, parameter in model.named_parameters():
            self._names[id(parameter)] = (parameter, name)

    def name_of(self, parameter: torch.Tensor) -> str:
        """Return a parameter's name, under which its residual is kept.

        Parameters
        ----------
        parameter : torch.Tensor
            The tensor itself, not its gradient.
        """
        known = self._names.get(id(parameter))
        if known is None:
            known = (parameter, f"parameter {len(self._names)}")
            self._names[id(parameter)] = known
        return known[1]

    def in_place(self, name: str) -> Callable[[torch.Tensor], None]:
        """Return a function of one flat gradient, as FSDP2's ``set_all_reduce_hook`` takes.

        The flat tensor is reduced as a matrix that is as square as its length admits.

        Parameters
        ----------
        name : str
            Of the residual.
        """

        def reduce(flat: torch.Tensor) -> None:
            self(name, flat.view(squarest(flat.numel()), -1) if flat.numel() else flat)

        return reduce

    def on_view(self, view: View) -> None:
        """Take note of who is there after ``holdfast.advance()``; on every rank alike.

        Parameters
        ----------
        view : View
            Residuals of ranks that are gone are gone; others are unaffected; those of ranks that
            came in are zero. Newcomers get the rest by ``holdfast.sync(..., reducer.shared)``.
        """
        before = set(self.exchange.members)
        self.pipeline.abandon()
        self.exchange.regroup(view.ranks)
        self.residuals.on_view(before, view.ranks, view.joined, self.exchange.rank)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank, by reference; loading it goes on with the same bits."""
        return {"own": self.residuals.state_dict(), "shared": self._shared_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned on this rank; copies.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned.

        Raises
        ------
        ConfigError
            For a dictionary of something else.
        """
        keys = sorted(state)
        require(keys == ["own", "shared"], "state of a reducer", keys, "'own' and 'shared'")
        self.residuals.load_state_dict(state["own"])
        self._load_shared_state(state["shared"])


def squarest(count: int) -> int:
    """Return the largest divisor of `count` that is not above its square root."""
    for rows in range(int(count**0.5), 1, -1):
        if count % rows == 0:
            return rows
    return 1


class _Flight:
    """A reduction under way."""

    def __init__(self, reduction: Reduction, landed: Callable[[], None]) -> None:
        self._reduction = reduction
        self._landed = landed
        self._pending: Pending | None = next(reduction, None)

    def advance(self) -> None:
        """Wait for the op under way, and begin the next one."""
        if self._pending is None:
            return
        self._pending.wait()
        self._pending = next(self._reduction, None)

    def finish(self) -> None:
        """Go to the end."""
        while self._pending is not None:
            self.advance()
        self._landed()

    def abandon(self) -> None:
        """Let the reduction roll back."""
        self._reduction.close()


class Pipeline:
    """Reductions of successive buckets, at most two at a time; the order of ops is fixed.

    Bucket k begins its second op before bucket k + 1 begins its first, and ends after it.
    """

    def __init__(self) -> None:
        self._flights: list[_Flight] = []

    def push(self, reduction: Reduction, landed: Callable[[], None], last: bool) -> None:
        """Begin a reduction, and end the one before.

        Parameters
        ----------
        reduction : Reduction
            Not begun yet.
        landed : callable
            Called when it has ended well.
        last : bool
            No other will follow: end this one, too.

        Raises
        ------
        Exception
            What a reduction raised; those under way are rolled back.
        """
        try:
            for flight in self._flights:
                flight.advance()
            self._flights.append(_Flight(reduction, landed))
            while len(self._flights) > (0 if last else 1):
                self._flights[0].finish()
                self._flights.pop(0)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Roll back whatever is under way: backward was cut off."""
        for flight in self._flights:
            flight.abandon()
        self._flights.clear()
