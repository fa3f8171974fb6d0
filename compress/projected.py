"""Adam on projections of gradients: what GaLore and APOLLO share.

A gradient matrix G, m x n with m <= n (else it is transposed), is seen through a basis B of r
columns: ranks average B^T G, r x n, and Adam's moments are of that shape, too. Vectors, and
matrices that would not shrink, are averaged as they are, in the same op, and get plain Adam.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import Exchange
from holdfast.compress.optimizer import (
    CompressedOptimizer,
    Params,
    Slot,
    adam_defaults,
    follow,
    gradient,
)
from holdfast.compress.options import require


class ProjectedAdam(CompressedOptimizer):
    """Adam whose ranks exchange projections.

    Parameters
    ----------
    params : iterable
        Parameters or groups; a group's ``rank`` may be None: not projected.
    lr, betas, eps, weight_decay
        As for ``torch.optim.AdamW``.
    rank : int, optional
        Columns of the basis.
    refresh : int
        Steps from one basis to the next.
    scale : float
        Factor of projected updates.
    seed : int
        Of random numbers; the same on all ranks.
    group, exchange
        As for `CompressedOptimizer`.
    """

    def __init__(
        self,
        params: Params,
        lr: float,
        *,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        rank: int | None,
        refresh: int,
        scale: float,
        seed: int,
        group: Any,
        exchange: Exchange | None,
    ) -> None:
        require(rank is None or rank >= 1, "rank", rank, "1 and more, or None")
        require(refresh >= 1, "refresh", refresh, "1 and more")
        require(scale > 0, "scale", scale, "more than 0")
        defaults = {
            **adam_defaults(lr, betas, eps, weight_decay),
            "rank": rank,
            "refresh": refresh,
            "scale": scale,
        }
        super().__init__(params, defaults, group, exchange)
        self._seed = seed

    @abstractmethod
    def _renew(self, slots: Sequence[tuple[int, Slot]]) -> None:
        """Give parameters, with their numbers, a new basis; collective."""

    @abstractmethod
    def _basis(self, number: int, slot: Slot) -> torch.Tensor:
        """Return a parameter's basis, shape (m, r), float32."""

    @abstractmethod
    def _lift(
        self, slot: Slot, basis: torch.Tensor, seen: torch.Tensor, normed: torch.Tensor
    ) -> torch.Tensor:
        """Return the update, (m, n), of an averaged projection and Adam's step for it, (r, n)."""

    def _update(self, slots: Sequence[Slot]) -> None:
        numbered = list(enumerate(slots))
        thin = [(i, slot) for i, slot in numbered if shrinks(*slot[:2])]
        due = [(i, s) for i, s in thin if s[2].get("step", 0) % s[1]["refresh"] == 0]
        if due:
            self._renew(due)
        bases = {i: self._basis(i, slot) for i, slot in thin}
        seen = [
            bases[i].T @ wide(gradient(slot[0])) if i in bases else gradient(slot[0]).float()
            for i, slot in numbered
        ]
        if seen:
            self._mean(seen)
        for (i, slot), average in zip(numbered, seen, strict=True):
            p, group, _ = slot
            update = adam(average, group, slot[2])
            if i in bases:
                update = self._lift(slot, bases[i], average, update) * group["scale"]
                update = (update if is_wide(p) else update.T).reshape(p.shape)
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update, alpha=-group["lr"])


def is_wide(p: torch.Tensor) -> bool:
    """Tell whether a parameter, as a matrix, has at least as many columns as rows."""
    return p.shape[0] * p.shape[0] <= p.numel()


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a float32 matrix with at least as many columns as rows."""
    matrix = tensor.reshape(tensor.shape[0], -1).to(torch.float32)
    return matrix if is_wide(tensor) else matrix.T


def shrinks(p: torch.Tensor, group: dict[str, Any]) -> bool:
    """Tell whether a parameter is projected: a matrix of more rows and columns than the rank."""
    if group["rank"] is None or p.dim() < 2 or p.numel() == 0:
        return False
    rows: int = min(p.shape[0], p.numel() // p.shape[0])
    return bool(rows > group["rank"])


def adam(seen: torch.Tensor, group: dict[str, Any], state: dict[str, Any]) -> torch.Tensor:
    """Return Adam's step for a gradient of any shape, before the learning rate."""
    if not state.get("step"):
        state["step"] = 0
        state["exp_avg"] = torch.zeros_like(seen)
        state["exp_avg_sq"] = torch.zeros_like(seen)
    beta1, beta2 = group["betas"]
    state["step"] += 1
    follow(state, seen, group["betas"])
    deviation = (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
    step: torch.Tensor = state["exp_avg"] / (1 - beta1 ** state["step"]) / deviation
    return step
