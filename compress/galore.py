"""GaLore: Adam in the leading singular space of the gradient.

Zhao, Zhang, Chen, Wang, Anandkumar, Tian, "GaLore: memory-efficient LLM training by gradient
low-rank projection", ICML 2024, arXiv:2403.03507, Algorithm 2. Departures: ranks exchange only
what the projection leaves, r x n; the projection is of the averaged gradient, found by a random
range finder with one power iteration (Halko, Martinsson, Tropp, SIAM Review 2011, arXiv:0909.4061,
Algorithm 4.4), which exchanges 2 r (m + n) numbers, or by the singular value decomposition of the
gradient itself, which exchanges all of it every `refresh` steps.
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
from holdfast.compress.projected import ProjectedAdam, wide

FINDERS = ("range", "svd")


class GaLore(ProjectedAdam):
    """Adam whose ranks exchange gradients as seen in their leading `rank` directions.

    Parameters
    ----------
    params : iterable
        Parameters or groups; a group's ``rank`` may be None: plain Adam.
    lr, betas, eps, weight_decay
        As for ``torch.optim.AdamW``.
    rank : int, optional
        Dimensions that are kept.
    refresh : int
        Steps between projections.
    scale : float
        Factor of projected updates.
    finder : str
        ``range`` or ``svd``.
    seed : int
        Of the range finder; the same on all ranks.
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
        rank: int | None = 128,
        refresh: int = 200,
        scale: float = 0.25,
        finder: str = "range",
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        seed: int = 0,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(finder in FINDERS, "finder", finder, " or ".join(map(repr, FINDERS)))
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
        self._finder = finder

    def _renew(self, slots: Sequence[tuple[int, Slot]]) -> None:
        matrices = [wide(gradient(slot[0])).clone() for _, slot in slots]
        if self._finder == "svd":
            self._mean(matrices)
            found = [torch.linalg.svd(_finite(m), full_matrices=False).U for m in matrices]
        else:
            found = self._range(slots, matrices)
        for (_, (_, group, state)), basis in zip(slots, found, strict=True):
            state["basis"] = basis[:, : group["rank"]].to(torch.float32).contiguous()

    def _range(
        self, slots: Sequence[tuple[int, Slot]], matrices: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        probes = []
        for (number, (_, group, state)), matrix in zip(slots, matrices, strict=True):
            label = f"{self._seed} {number} {state.get('step', 0)}"
            chance = torch.Generator().manual_seed(zlib.crc32(label.encode()))
            probe = torch.randn(matrix.shape[1], group["rank"], generator=chance)
            probes.append(probe.to(matrix.device))
        for again in (True, False):
            left = [m @ probe for m, probe in zip(matrices, probes, strict=True)]
            self._mean(left)
            bases = [_basis_of(columns) for columns in left]
            if again:
                probes = [m.T @ b.float() for m, b in zip(matrices, bases, strict=True)]
                self._mean(probes)
        return bases

    def _basis(self, number: int, slot: Slot) -> torch.Tensor:
        basis: torch.Tensor = slot[2]["basis"]
        return basis

    def _lift(
        self, slot: Slot, basis: torch.Tensor, seen: torch.Tensor, normed: torch.Tensor
    ) -> torch.Tensor:
        return basis @ normed


def _basis_of(columns: torch.Tensor) -> torch.Tensor:
    return orthonormalise(_finite(columns))


def _finite(matrix: torch.Tensor) -> torch.Tensor:
    """Of a matrix that is not finite, any basis will do: Adam will show the NaN."""
    return torch.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
