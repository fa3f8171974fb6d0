"""APOLLO: Adam's learning rates, per channel or per tensor, guessed from a random projection.

Zhu, Zhang, Cong, Liu, Park, Chandra, Long, Pan, Wang, Lee, "APOLLO: SGD-like memory, AdamW-level
performance", MLSys 2025, arXiv:2412.05270, Algorithm 1, with the limit on the update's growth that
it takes from Fira (Chen et al., arXiv:2410.01623). Departures:

- The random directions are orthonormal: nothing is counted twice, and error feedback contracts.
- By default ranks exchange only the projection, r x n, so that the update has only the part of the
  gradient that lies in the random directions; the rest waits in the residual for other directions.
  ``dense=True`` is the paper's own update: it averages the whole gradient, and saves memory alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import Exchange
from holdfast.compress.optimizer import Params, Slot, gradient
from holdfast.compress.options import require
from holdfast.compress.orthogonal import orthonormalise
from holdfast.compress.projected import ProjectedAdam, is_wide, shrinks, wide

SCALINGS = ("channel", "tensor")
# Fira's limit: the norm of an update may grow by 1 % per step.
_GROWTH = 1.01


class Apollo(ProjectedAdam):
    """SGD with Adam's scale, whose ranks exchange random projections of gradients.

    Parameters
    ----------
    params : iterable
        Parameters or groups; a group's ``rank`` may be None: plain Adam.
    lr, betas, eps, weight_decay
        As for ``torch.optim.AdamW``.
    rank : int, optional
        Random directions.
    refresh : int
        Steps from one set of directions to the next.
    scale : float
        Factor of projected updates.
    scaling : str
        ``channel``: a factor per column; ``tensor``: one for all (APOLLO-Mini has rank 1 and a
        `scale` of sqrt(128)).
    dense : bool
        True: average the whole gradient.
    error_feedback : bool
        What the directions leave out is kept and sent in later ones; not with `dense`.
    seed : int
        Of the directions: the same on all ranks, and all that they need to agree on.
    group, exchange
        As for `CompressedOptimizer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        *,
        rank: int | None = 256,
        refresh: int = 200,
        scale: float = 1.0,
        scaling: str = "channel",
        dense: bool = False,
        error_feedback: bool = False,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        seed: int = 0,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(scaling in SCALINGS, "scaling", scaling, " or ".join(map(repr, SCALINGS)))
        fits = not (dense and error_feedback)
        require(fits, "error_feedback", error_feedback, "False with dense=True: nothing is left")
        super().__init__(
            params,
            lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            rank=rank,
            refresh=refresh,
            scale=scale,
            seed=seed,
            group=group,
            exchange=exchange,
        )
        self._scaling = scaling
        self._dense = dense
        self._error_feedback = error_feedback
        # Drawn again when they are not here: they are no state.
        self._drawn: dict[int, tuple[int, torch.Tensor]] = {}

    def _update(self, slots: Sequence[Slot]) -> None:
        thin = [(i, s) for i, s in enumerate(slots) if shrinks(*s[:2])]
        if self._dense and thin:
            self._mean([gradient(slot[0]) for _, slot in thin])
        if not self._error_feedback:
            super()._update(slots)
            return
        names = [f"gradient/{number}" for number, _ in thin]
        for name, (_, (p, _, _)) in zip(names, thin, strict=True):
            gradient(p).add_(self.residuals.get(name, p.shape, torch.float32, p.device))
        left = [wide(gradient(slot[0])) for _, slot in thin]
        bases = [self._basis(number, slot) for number, slot in thin]
        try:
            super()._update(slots)
        except BaseException:
            for name in names:
                self.residuals.rollback(name)
            raise
        for name, (_, (p, _, _)), matrix, basis in zip(names, thin, left, bases, strict=True):
            rest = matrix - basis @ (basis.T @ matrix)
            if not bool(torch.isfinite(p).all()):
                self.residuals.rollback(name)
                continue
            rest = rest if is_wide(p) else rest.T
            self.residuals.commit(name, rest.reshape(p.shape).contiguous())

    def _renew(self, slots: Sequence[tuple[int, Slot]]) -> None:
        """Nothing to exchange: directions come from the seed, the parameter and the step."""

    def _basis(self, number: int, slot: Slot) -> torch.Tensor:
        p, group, state = slot
        draw = state.get("step", 0) // group["refresh"]
        known = self._drawn.get(number)
        if known is None or known[0] != draw:
            label = f"{self._seed} {number} {draw}"
            chance = torch.Generator().manual_seed(zlib.crc32(label.encode()))
            rows = min(p.shape[0], p.numel() // p.shape[0])
            directions = orthonormalise(torch.randn(rows, group["rank"], generator=chance))
            known = (draw, directions.to(device=p.device, dtype=torch.float32))
            self._drawn[number] = known
        return known[1]

    def _lift(
        self, slot: Slot, basis: torch.Tensor, seen: torch.Tensor, normed: torch.Tensor
    ) -> torch.Tensor:
        p, _, state = slot
        dim = 0 if self._scaling == "channel" else (0, 1)
        before = torch.linalg.vector_norm(seen, dim=dim, keepdim=True)
        after = torch.linalg.vector_norm(normed, dim=dim, keepdim=True)
        factors = torch.where(before > 0, after / before, torch.zeros_like(before))
        update = (wide(gradient(p)) if self._dense else basis @ seen) * factors
        norm = float(torch.linalg.vector_norm(update))
        last = state.get("norm", 0.0)
        if 0 < last * _GROWTH < norm:
            update = update * (last * _GROWTH / norm)
            norm = last * _GROWTH
        state["norm"] = norm
        return update
