"""Outer optimisers: what becomes of the shared parameters when the members' mean progress is there.

Progress is where a member began minus where it is, so it is used as a gradient (DiLoCo, Douillard
et al. 2023, arXiv:2311.08105, Algorithm 1, line 12). Each works in place on flat tensors of float32
or float64, with the same bits for the same input. They keep nothing themselves: their state is the
tensors that `state_of` names, which the trainer holds, syncs and saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from holdfast.compress.options import require

State = Mapping[str, torch.Tensor]


class OuterOptimizer(Protocol):
    """An outer optimiser."""

    def state_of(self, count: int) -> dict[str, int]:
        """Return its state's tensors, which are zeros at first: names, and how many elements.

        Parameters
        ----------
        count : int
            Elements of the parameters.
        """
        ...

    def update(self, outer: torch.Tensor, progress: torch.Tensor, state: State) -> None:
        """Do an outer step, in place.

        Parameters
        ----------
        outer : torch.Tensor
            Flat, the shared parameters; replaced by the new ones.
        progress : torch.Tensor
            Of the same shape, the members' mean; may be overwritten.
        state : mapping of str to torch.Tensor
            By the names of `state_of`; written in place.
        """
        ...


@dataclass(frozen=True, slots=True)
class OuterSGD:
    """A step along the mean progress, with the heavy ball's momentum if any.

    Rate 1 without momentum is the average of the members' parameters (Stich 2018, arXiv:1805.09767,
    Algorithm 1). With momentum it is the outer step of SlowMo (arXiv:1910.00643, Algorithm 1).

    Parameters
    ----------
    rate : float
        Above 0.
    momentum : float
        0 to below 1.
    """

    rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit."""
        _check(self.rate, self.momentum)

    def state_of(self, count: int) -> dict[str, int]:
        """Return its state's tensors: the momentum, if any."""
        return {"momentum": count} if self.momentum else {}

    def update(self, outer: torch.Tensor, progress: torch.Tensor, state: State) -> None:
        """Do an outer step, in place."""
        outer.sub_(self.direction(progress, state), alpha=self.rate)

    def direction(self, progress: torch.Tensor, state: State) -> torch.Tensor:
        """Return what is gone along; the momentum follows the progress, in place.

        Parameters
        ----------
        progress : torch.Tensor
            As for `update`.
        state : mapping of str to torch.Tensor
            As for `update`.
        """
        if not self.momentum:
            return progress
        return state["momentum"].mul_(self.momentum).add_(progress)


@dataclass(frozen=True, slots=True)
class OuterNesterov:
    """SGD with Nesterov's momentum, DiLoCo's outer optimiser (arXiv:2311.08105, section 3.1).

    Parameters
    ----------
    rate : float
        Above 0.
    momentum : float
        0 to below 1. The paper's 0.9 is for hundreds of rounds; shorter runs do better with less.
    """

    rate: float = 0.7
    momentum: float = 0.5

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit."""
        _check(self.rate, self.momentum)

    def state_of(self, count: int) -> dict[str, int]:
        """Return its state's tensors: the momentum."""
        return {"momentum": count}

    def update(self, outer: torch.Tensor, progress: torch.Tensor, state: State) -> None:
        """Do an outer step, in place."""
        outer.sub_(self.direction(progress, state), alpha=self.rate)

    def direction(self, progress: torch.Tensor, state: State) -> torch.Tensor:
        """Return what is gone along; the momentum follows the progress, in place.

        Parameters
        ----------
        progress : torch.Tensor
            As for `update`.
        state : mapping of str to torch.Tensor
            As for `update`.
        """
        state["momentum"].mul_(self.momentum).add_(progress)
        return progress.add(state["momentum"], alpha=self.momentum)


Linear = OuterSGD | OuterNesterov
"""Optimisers whose steps add up: that of a sum of progresses is the sum of theirs."""


@dataclass(frozen=True, slots=True)
class OuterAdam:
    """Adam on the mean progress: FedOpt's FedAdam (arXiv:2003.00295, Algorithm 2), bias corrected.

    Parameters
    ----------
    rate : float
        Above 0.
    betas : tuple of two floats
        0 to below 1, of the two moments.
    eps : float
        Above 0.
    """

    rate: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        """Refuse numbers that do not fit."""
        _check(self.rate, self.betas[0])
        require(0 <= self.betas[1] < 1, "betas", self.betas, "two numbers from 0 to below 1")
        require(self.eps > 0, "eps", self.eps, "more than 0")

    def state_of(self, count: int) -> dict[str, int]:
        """Return its state's tensors: two moments, and the number of steps."""
        return {"first": count, "second": count, "steps": 1}

    def update(self, outer: torch.Tensor, progress: torch.Tensor, state: State) -> None:
        """Do an outer step, in place."""
        first, second = state["first"], state["second"]
        first.lerp_(progress, 1 - self.betas[0])
        second.mul_(self.betas[1]).addcmul_(progress, progress, value=1 - self.betas[1])
        steps = float(state["steps"].add_(1))
        bias = [1 - beta**steps for beta in self.betas]
        scale = second.div(bias[1]).sqrt_().add_(self.eps)
        outer.addcdiv_(first, scale, value=-self.rate / bias[0])


def _check(rate: float, momentum: float) -> None:
    require(rate > 0, "rate", rate, "above 0")
    require(0 <= momentum < 1, "momentum", momentum, "0 to below 1")


def is_average(outer: OuterOptimizer) -> bool:
    """Return whether an outer step makes the shared parameters the average of the members'.

    Parameters
    ----------
    outer : OuterOptimizer
        The optimiser.
    """
    return isinstance(outer, OuterSGD) and outer.rate == 1 and outer.momentum == 0
