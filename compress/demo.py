"""DeMo: the ranks' momenta stay apart; what moves fastest in them is exchanged.

Peng, Quesnelle, Kingma, "DeMo: decoupled momentum optimization", 2024, arXiv:2411.19870, Algorithm
1: momentum is cut into chunks, each chunk's discrete cosine transform (DCT-II, orthonormal) gives
up its k largest components, their average is transformed back and its sign is the update.
Departures: chunks that do not fit are padded with zeros; components are averaged over all ranks,
not over those that sent them; weight decay, decoupled.

The momentum is rank-local and is kept among the residuals: a lost rank's is gone, a joiner's zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.compress.exchange import Exchange
from holdfast.compress.optimizer import CompressedOptimizer, Params, Slot, gradient
from holdfast.compress.options import require


class DeMo(CompressedOptimizer):
    """Signed descent along the strongest frequencies of all ranks' momenta.

    Parameters
    ----------
    params : iterable
        Parameters or groups.
    lr : float
        Learning rate of the signs.
    decay : float
        Of the local momentum.
    chunk : int
        Chunks are of this many elements along each dimension; matrices have square ones.
    top_k : int
        Components sent of each chunk.
    sign : bool
        False: the average itself is the update.
    weight_decay : float
        Decoupled.
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
        decay: float = 0.999,
        chunk: int = 64,
        top_k: int = 32,
        sign: bool = True,
        weight_decay: float = 0.0,
        group: Any = None,
        exchange: Exchange | None = None,
    ) -> None:
        require(lr >= 0, "lr", lr, "0 and more")
        require(0 <= decay < 1, "decay", decay, "0 to below 1")
        require(1 <= chunk <= 1024, "chunk", chunk, "1 to 1024")
        require(top_k >= 1, "top_k", top_k, "1 and more")
        require(weight_decay >= 0, "weight_decay", weight_decay, "0 and more")
        defaults = {"lr": lr, "decay": decay, "sign": sign, "weight_decay": weight_decay}
        super().__init__(params, defaults, group, exchange)
        self._chunk = chunk
        self._top_k = top_k

    def _update(self, slots: Sequence[Slot]) -> None:
        slots = [slot for slot in slots if slot[0].numel()]
        if not slots:
            return
        names = [f"momentum/{i}" for i in range(len(slots))]
        opened: list[str] = []
        try:
            momenta = [
                self._gather_momentum(n, s, opened) for n, s in zip(names, slots, strict=True)
            ]
            chunks = [Chunks(tuple(m.shape), self._chunk, m.device) for m in momenta]
            chosen = [c.largest(m, self._top_k) for c, m in zip(chunks, momenta, strict=True)]
            own = torch.cat([part for pair in chosen for part in _words(*pair)])
            shape = (self.exchange.size, own.numel())
            rows = torch.zeros(shape, dtype=own.dtype, device=own.device)
            self.exchange.gather(rows, own).wait()
        except BaseException:
            for name in opened:
                self.residuals.rollback(name)
            raise
        at = 0
        for name, slot, momentum, chunk, (where, values) in zip(
            names, slots, momenta, chunks, chosen, strict=True
        ):
            count = 2 * where.numel()
            average = chunk.zeros()
            for member in self.exchange.members:
                places, found = rows[member, at : at + count].view(2, *where.shape)
                average.scatter_add_(1, places.to(torch.int64), found.view(torch.float32))
            at += count
            average.div_(len(self.exchange.members))
            if bool(torch.isfinite(average).all()):
                sent = chunk.zeros().scatter_(1, where, values)
                self.residuals.commit(name, momentum - chunk.back(sent))
            else:
                self.residuals.rollback(name)
                average.fill_(float("nan"))
            self._move(slot, chunk.back(average))

    def _gather_momentum(self, name: str, slot: Slot, opened: list[str]) -> torch.Tensor:
        p, group, _ = slot
        g = gradient(p).to(torch.float32)
        momentum = self.residuals.get(name, p.shape, torch.float32, p.device)
        opened.append(name)
        decayed: torch.Tensor = momentum * group["decay"] + g
        return decayed

    @staticmethod
    def _move(slot: Slot, update: torch.Tensor) -> None:
        p, group, _ = slot
        p.mul_(1 - group["lr"] * group["weight_decay"])
        if group["sign"]:
            update = torch.where(update.isnan(), update, update.sign())
        p.add_(update, alpha=-group["lr"])


def _words(where: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return where.to(torch.int32).view(-1), values.contiguous().view(torch.int32).view(-1)


@dataclass(frozen=True)
class Chunks:
    """How a tensor is cut and transformed.

    Parameters
    ----------
    shape : tuple of int
        The tensor's; beyond two dimensions the last ones count as one.
    size : int
        Of a chunk along each dimension, at most.
    device : torch.device
        Of the tensor.
    """

    shape: tuple[int, ...]
    size: int
    device: torch.device

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns; a vector is one row."""
        if len(self.shape) < 2:
            return 1, math.prod(self.shape)
        return self.shape[0], math.prod(self.shape[1:])

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a chunk."""
        m, n = self.matrix
        return min(m, self.size), min(n, self.size)

    @property
    def grid(self) -> tuple[int, int]:
        """Chunks down and across."""
        (m, n), (a, b) = self.matrix, self.tile
        return -(-m // a), -(-n // b)

    def zeros(self) -> torch.Tensor:
        """Return components of zero, shape (chunks, elements of a chunk)."""
        (rows, columns), (a, b) = self.grid, self.tile
        return torch.zeros(rows * columns, a * b, device=self.device)

    def forth(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the components of all chunks, shape as of `zeros`."""
        (m, n), (a, b), (rows, columns) = self.matrix, self.tile, self.grid
        padded = torch.zeros(rows * a, columns * b, device=self.device)
        padded[:m, :n] = tensor.reshape(m, n)
        tiles = padded.view(rows, a, columns, b).transpose(1, 2)
        components: torch.Tensor = dct(a, self.device) @ tiles @ dct(b, self.device).T
        return components.reshape(rows * columns, a * b)

    def back(self, components: torch.Tensor) -> torch.Tensor:
        """Return the tensor that has these components."""
        (m, n), (a, b), (rows, columns) = self.matrix, self.tile, self.grid
        tiles: torch.Tensor = components.view(rows, columns, a, b)
        tiles = dct(a, self.device).T @ tiles @ dct(b, self.device)
        return tiles.transpose(1, 2).reshape(rows * a, columns * b)[:m, :n].reshape(self.shape)

    def largest(self, tensor: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return places and values of each chunk's largest components, shape (chunks, count)."""
        components = self.forth(tensor)
        where = torch.topk(components.abs(), min(count, components.shape[1]), dim=1).indices
        return where, components.gather(1, where)


def dct(size: int, device: torch.device) -> torch.Tensor:
    """Return the orthonormal DCT-II as a matrix, shape (size, size), float32."""
    place = torch.arange(size, dtype=torch.float64)
    basis = torch.cos(math.pi / size * (place + 0.5) * place.unsqueeze(1)) * math.sqrt(2 / size)
    basis[0] /= math.sqrt(2)
    return basis.to(device=device, dtype=torch.float32)
