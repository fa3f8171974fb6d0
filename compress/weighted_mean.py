"""The weighted mean over any exchange that adds up: multiply, add up, divide by the weights' sum.

Not exact when a rank is lost on the way: it may be in one of the two sums alone. What divides each
part by the weights of those who are in it is `holdfast.Group.all_reduce` with a weight.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch

from holdfast.compress.options import require


class _Ends(Protocol):
    def wait(self) -> object: ...


class _Adds(Protocol):
    def sum(self, tensor: torch.Tensor) -> _Ends: ...


class _Division:
    """A weighted sum and the sum of the weights under way, to be made an average."""

    def __init__(
        self, works: tuple[_Ends, _Ends], tensor: torch.Tensor, total: torch.Tensor
    ) -> None:
        self._works = works
        self._tensor = tensor
        self._total = total

    def wait(self) -> None:
        for work in self._works:
            work.wait()
        total = float(self._total)
        if total > 0:
            self._tensor.div_(total)


def checked_weight(weight: float | None) -> float | None:
    """Return the weight, if it is one.

    Parameters
    ----------
    weight : float or None
        How much a rank's tensor counts; None: no weight was given.

    Raises
    ------
    ConfigError
        Naming the value, when it is negative or not finite.
    """
    if weight is not None:
        good = math.isfinite(weight) and weight >= 0
        require(good, "weight", weight, "a finite number, 0 or more; None: no weight")
    return weight


def weighted_mean(exchange: _Adds, tensor: torch.Tensor, weight: float) -> _Division:
    """Begin to average a tensor in place; zeros where no rank has a weight.

    Parameters
    ----------
    exchange : Exchange
        Its `sum` carries the tensor, and the weight in float64, which counts samples exactly.
    tensor : torch.Tensor
        Floating. In float16 the sum of weight times tensor must fit.
    weight : float
        How much it counts; 0: nothing, whatever it holds.
    """
    total = torch.tensor([weight], dtype=torch.float64, device=tensor.device)
    told = exchange.sum(total)
    if weight == 0:
        tensor.zero_()
    else:
        tensor.mul_(weight)
    return _Division((told, exchange.sum(tensor)), tensor, total)
