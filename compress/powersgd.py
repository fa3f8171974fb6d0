"""PowerSGD: gradients as products of thin matrices, found by one power iteration per step.

Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
optimization", NeurIPS 2019, arXiv:1905.13727, Algorithms 1 and 2. Departures:

- Orthonormalisation is Cholesky-QR, twice (orthogonal.py), instead of Gram-Schmidt.
- The residual is local: what this rank's own product leaves out, as in Algorithm 2; the authors'
  code subtracts the averaged product. So sent + residual == gradient + old residual on each rank.
- The right factor is scaled to length 1 before it starts the next step, against underflow.
- A gradient that is not finite on any rank gives NaN on all ranks, and no residual changes.

Bytes: r (m + n) instead of m n. Memory: three passes by blocks of rows that stay in the cache; the
second product is formed as P^T M and not as M^T P, which libraries run at a fraction of memory's
speed. The sum with the residual overwrites the gradient, so that the residual itself stays as it
was until both ops have succeeded.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.compress.exchange import Exchange, Reduction
from holdfast.compress.options import require
from holdfast.compress.orthogonal import orthonormalise
from holdfast.compress.reducer import Named, Reducer

# A block of the matrix and one of its residual share a core's second-level cache.
_BLOCK_BYTES = 512 * 1024


@dataclass(slots=True)
class _Matrix:
    """One gradient on its way through a step."""

    name: str
    gradient: torch.Tensor  # (m, n), the caller's
    total: torch.Tensor  # (m, n): gradient + residual; the gradient itself if its dtype serves
    residual: torch.Tensor | None  # (m, n)
    start: torch.Tensor  # (r, n): Q of the step before, transposed
    left: torch.Tensor  # (r, m): P transposed, a part of the first op's buffer
    right: torch.Tensor | None = None  # (r, n): this rank's Q transposed
    basis: torch.Tensor | None = None  # (m, r): P, orthonormal; None when P was not finite

    def blocks(self) -> list[slice]:
        """Return slices of rows; a device without such a cache takes the whole matrix at once."""
        rows, columns = self.total.shape
        step = max(1, _BLOCK_BYTES // (columns * self.total.element_size()))
        if self.total.device.type != "cpu":
            step = rows
        return [slice(i, min(i + step, rows)) for i in range(0, rows, step)]


class PowerSGD(Reducer):
    """Averages matrices by their rank-`rank` part; error feedback sends the rest later.

    Parameters
    ----------
    rank : int
        Columns of the factors, 1 and more.
    min_ratio : float
        Matrices that would shrink by less are averaged as they are, as are vectors.
    error_feedback : bool
        False: what is left out is lost, which costs much accuracy.
    warm_start : bool
        False: each step starts from random factors instead of the last step's.
    start_step : int
        So many first steps of each tensor are averaged as they are.
    seed : int
        Of the first factors; the same on all ranks.
    codec : str, optional
        Wire format of the factors, where the exchange has one.
    group, exchange
        As for `Reducer`.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        rank: int = 4,
        *,
        min_ratio: float = 2.0,
        error_feedback: bool = True,
        warm_start: bool = True,
        start_step: int = 0,
        seed: int = 0,
        codec: str | None = None,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(isinstance(rank, int) and rank >= 1, "rank", rank, "a whole number, 1 and more")
        require(min_ratio >= 1, "min_ratio", min_ratio, "1 and more")
        require(start_step >= 0, "start_step", start_step, "0 and more")
        super().__init__(group, exchange)
        self._rank = rank
        self._min_ratio = min_ratio
        self._error_feedback = error_feedback
        self._warm_start = warm_start
        self._start_step = start_step
        self._seed = seed
        self._codec = codec
        self._factors: dict[str, torch.Tensor] = {}
        self._steps: dict[str, int] = {}

    def reduction(self, gradients: Named) -> Reduction:
        """Average named gradients in place: two ops, whatever their number."""
        if not gradients:
            return
        thin = [(name, g) for name, g in gradients if self._shrinks(name, g)]
        plain = [g for name, g in gradients if not self._shrinks(name, g)]
        for name, _ in gradients:
            self._steps[name] = self._steps.get(name, 0) + 1
        first = _work_buffer([g for _, g in gradients], self._left_count(thin), plain)
        matrices: list[_Matrix] = []
        try:
            self._begin(thin, first, matrices)
            for matrix in matrices:
                _sum_and_multiply(matrix)
            yield self.exchange.mean(first, self._codec)
            second = self._middle(matrices, first)
            if matrices:
                yield self.exchange.mean(second, self._codec)
        except BaseException:
            if self._error_feedback:
                for matrix in matrices:
                    self.residuals.rollback(matrix.name)
            raise
        _unpack(plain, first)
        self._end(matrices, second)

    def _shrinks(self, name: str, gradient: torch.Tensor) -> bool:
        if gradient.dim() < 2 or gradient.numel() == 0 or not gradient.is_contiguous():
            return False
        if self._steps.get(name, 0) < self._start_step:
            return False
        m, n = gradient.shape[0], gradient.numel() // gradient.shape[0]
        return min(self._rank, m, n) * (m + n) * self._min_ratio <= m * n

    def _left_count(self, thin: Named) -> int:
        return sum(
            min(self._rank, g.shape[0], g.numel() // g.shape[0]) * g.shape[0] for _, g in thin
        )

    def _begin(self, thin: Named, first: torch.Tensor, matrices: list[_Matrix]) -> None:
        at = 0
        for name, gradient in thin:
            flat = gradient.view(gradient.shape[0], -1)
            m, n = flat.shape
            r = min(self._rank, m, n)
            residual = None
            if self._error_feedback:
                residual = self.residuals.get(name, flat.shape, first.dtype, flat.device)
            left = first[at : at + r * m].view(r, m)
            start = self._start(name, r, n, first)
            total = flat if flat.dtype == first.dtype else flat.to(first.dtype)
            matrices.append(_Matrix(name, flat, total, residual, start, left))
            at += r * m

    def _start(self, name: str, r: int, n: int, like: torch.Tensor) -> torch.Tensor:
        kept = self._factors.get(name) if self._warm_start else None
        if kept is not None and kept.shape == (r, n):
            return kept.to(like.device)
        chance = torch.Generator().manual_seed(
            zlib.crc32(f"{self._seed} {self._steps[name]} {name}".encode())
        )
        return torch.randn(r, n, generator=chance, dtype=torch.float32).to(like)

    def _middle(self, matrices: list[_Matrix], first: torch.Tensor) -> torch.Tensor:
        """Form this rank's right factors from the averaged left ones."""
        second = torch.zeros(
            sum(x.start.numel() for x in matrices), dtype=first.dtype, device=first.device
        )
        at = 0
        for matrix in matrices:
            right = second[at : at + matrix.start.numel()].view(matrix.start.shape)
            at += matrix.start.numel()
            if not bool(torch.isfinite(matrix.left).all()):
                continue
            matrix.basis = orthonormalise(matrix.left.T).to(first.dtype)
            for rows in matrix.blocks():
                right.addmm_(matrix.basis[rows].T, matrix.total[rows])
            matrix.right = right.clone()
        return second

    def _end(self, matrices: list[_Matrix], second: torch.Tensor) -> None:
        """Write the averaged products over the gradients, and what is left out to the residuals."""
        at = 0
        for matrix in matrices:
            averaged = second[at : at + matrix.start.numel()].view(matrix.start.shape)
            at += matrix.start.numel()
            if matrix.basis is None or not bool(torch.isfinite(averaged).all()):
                matrix.gradient.fill_(float("nan"))
                if matrix.residual is not None:
                    self.residuals.rollback(matrix.name)
                continue
            _write(matrix, averaged)
            if matrix.residual is not None:
                self.residuals.commit(matrix.name, matrix.residual)
            length = torch.linalg.vector_norm(averaged)
            if self._warm_start and bool(length > 0):
                self._factors[matrix.name] = averaged / length

    def _shared_state(self) -> dict[str, Any]:
        return {
            "factors": dict(sorted(self._factors.items())),
            "steps": dict(sorted(self._steps.items())),
        }

    def _load_shared_state(self, state: Mapping[str, Any]) -> None:
        keys = sorted(state)
        require(keys == ["factors", "steps"], "state of PowerSGD", keys, "'factors' and 'steps'")
        self._factors = {name: factor.clone() for name, factor in state["factors"].items()}
        self._steps = {name: int(count) for name, count in state["steps"].items()}


def _work_buffer(
    gradients: list[torch.Tensor], left: int, plain: list[torch.Tensor]
) -> torch.Tensor:
    """Return the first op's buffer: room for the left factors, then the uncompressed gradients."""
    kinds = {g.dtype for g in gradients}
    require(len(kinds) == 1, "dtypes of gradients", kinds, "one in each call")
    dtype = torch.float64 if kinds == {torch.float64} else torch.float32
    count = left + sum(g.numel() for g in plain)
    buffer = torch.empty(count, dtype=dtype, device=gradients[0].device)
    at = left
    for g in plain:
        buffer[at : at + g.numel()].view(g.shape).copy_(g)
        at += g.numel()
    return buffer


def _unpack(plain: list[torch.Tensor], first: torch.Tensor) -> None:
    at = first.numel() - sum(g.numel() for g in plain)
    for g in plain:
        g.copy_(first[at : at + g.numel()].view(g.shape))
        at += g.numel()


def _sum_and_multiply(matrix: _Matrix) -> None:
    """P^T = Q^T M^T, which is faster than M Q where Q has few columns."""
    for rows in matrix.blocks():
        total = matrix.total[rows]
        if matrix.residual is not None:
            total.add_(matrix.residual[rows])
        torch.mm(matrix.start, total.T, out=matrix.left[:, rows])


def _write(matrix: _Matrix, averaged: torch.Tensor) -> None:
    assert matrix.basis is not None
    assert matrix.right is not None
    same = matrix.total is matrix.gradient
    for rows in matrix.blocks():
        basis, total = matrix.basis[rows], matrix.total[rows]
        if matrix.residual is not None:
            torch.addmm(total, basis, matrix.right, alpha=-1, out=matrix.residual[rows])
        torch.mm(basis, averaged, out=total)
        if not same:
            matrix.gradient[rows] = total
