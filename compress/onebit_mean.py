"""An all-reduce of signs: one bit per element and a scale per block, with error feedback twice.

Tang et al., "1-bit Adam", ICML 2021, arXiv:2102.02888, the compressed all-reduce: each rank sends
the signs of part r of (tensor + its residual) to rank r; rank r averages what it gets, adds its
own server residual, and sends the signs of that to all. Departures: a scale per block instead of
one per tensor, blocks never span two tensors; the scale is the root mean square or the mean
magnitude, in a byte; parts go by whoever is there, and server residuals move along (residuals.py).

Why blocks are short: an element is sent as plus or minus its block's scale. One whose gradient is
far above that owes ever more, until the residual has raised the scale to it: of n elements it then
owes sqrt(n) times its gradient, comes as many steps late, and moves all the others by its own size.

Plain torch operations. It stands behind `CompressedMean`, so that a native one can take its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from holdfast.compress.exchange import Exchange, Reduction
from holdfast.compress.options import require
from holdfast.compress.residuals import Residuals

SCALES = ("rms", "l1")
_SCALE_BYTES = 1
# A scale's byte counts half octaves, from 2^-95.5 to 2^31. What rounding loses, up to a fifth, is
# in the residual. 0 is none, the last is not a number.
_SMALLEST, _LARGEST, _NAN = 1, 254, 255
_ONE = 192
# Bit i of a number's highest byte, after this product, is bit 0 of its byte i; nothing carries.
_GATHER_BITS = 0x0102040810204080


@dataclass(frozen=True, slots=True)
class _Layout:
    """How tensors lie in one vector: each begins a block; every member has the same part of it."""

    sizes: tuple[int, ...]
    block: int
    parts: int

    def blocks_of(self, size: int) -> int:
        return -(-size // self.block)

    @property
    def aligned(self) -> int:
        """Elements of all tensors' blocks, whoever shares them."""
        return sum(self.blocks_of(size) for size in self.sizes) * self.block

    @property
    def blocks(self) -> int:
        """Of one part."""
        return max(1, -(-self.aligned // self.block // self.parts))

    @property
    def length(self) -> int:
        """Elements of one part."""
        return self.blocks * self.block

    @property
    def row_bytes(self) -> int:
        """Of one part on the wire."""
        return self.length // 8 + self.blocks * _SCALE_BYTES

    def counts(self) -> torch.Tensor:
        """Return the elements of each block that are no padding, shape (parts, blocks, 1)."""
        counts = torch.zeros(self.parts * self.blocks)
        at = 0
        for size in self.sizes:
            end = at + self.blocks_of(size)
            counts[at:end] = self.block
            if size % self.block:
                counts[end - 1] = size % self.block
            at = end
        return counts.view(self.parts, self.blocks, 1)

    def join(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Lay the tensors out, shape (parts, blocks, block), float32; padding is zero."""
        total = torch.zeros(self.parts * self.length, device=tensors[0].device)
        at = 0
        for tensor in tensors:
            total[at : at + tensor.numel()] = tensor.reshape(-1)
            at += self.blocks_of(tensor.numel()) * self.block
        return total.view(self.parts, self.blocks, self.block)

    def part(self, total: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
        """Take the tensors out again."""
        flat, at = total.view(-1), 0
        for tensor in tensors:
            tensor.copy_(flat[at : at + tensor.numel()].view(tensor.shape))
            at += self.blocks_of(tensor.numel()) * self.block


def encode(x: torch.Tensor, counts: torch.Tensor, scale: str) -> torch.Tensor:
    """Return signs and scales.

    Parameters
    ----------
    x : torch.Tensor
        Shape (parts, blocks, block), float32; zero where it is padding.
    counts : torch.Tensor
        Shape (parts, blocks, 1): elements that are none.
    scale : str
        ``rms`` or ``l1``.

    Returns
    -------
    torch.Tensor
        Shape (parts, row bytes), uint8: eight elements per byte, the first in the lowest bit. A one
        is x >= 0, of either zero, too: what is decoded from it is what is compensated.
    """
    parts = x.shape[0]
    if scale == "rms":
        scales = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / counts.clamp(min=1.0).sqrt()
    else:
        scales = torch.linalg.vector_norm(x, 1, dim=-1, keepdim=True) / counts.clamp(min=1.0)
    # Eight bytes of 0 or 1 as one number: the product gathers them in its highest byte.
    eights = (x >= 0).view(torch.int64).mul_(_GATHER_BITS)
    packed = (eights >> 56).to(torch.uint8).view(parts, -1)
    return torch.cat([packed, _scale_bytes(scales).view(parts, -1)], dim=1)


def decode(rows: torch.Tensor, counts: torch.Tensor, block: int) -> torch.Tensor:
    """Return what `encode` has kept, shape (parts, blocks, block), float32; padding is zero."""
    parts, blocks = counts.shape[0], counts.shape[1]
    length = blocks * block
    packed = rows[:, : length // 8]
    scales = _scales(rows, length).view(parts, blocks, 1)
    signs = torch.nn.functional.embedding(packed.to(torch.int32), _signs(rows.device))
    values = signs.view(parts, blocks, block).mul_(scales)
    short = (counts < block).nonzero(as_tuple=True)[:2]
    within = torch.arange(block, device=rows.device) < counts[short]
    # Not a product: padding of a block whose scale is no number is zero, too.
    values[short] = torch.where(within, values[short], torch.zeros_like(values[short]))
    return values


def _scale_bytes(scales: torch.Tensor) -> torch.Tensor:
    """Return scales as bytes, of the same shape."""
    halves = scales.log2().mul_(2).round_().add_(_ONE)
    halves = halves.clamp_(max=_LARGEST)
    halves = torch.where(halves < _SMALLEST, torch.zeros_like(halves), halves)
    finite = torch.isfinite(scales)
    return torch.where(finite, halves, torch.full_like(halves, _NAN)).to(torch.uint8)


def _scales(rows: torch.Tensor, length: int) -> torch.Tensor:
    """Return the scales that follow the signs of so many elements, float32."""
    known = rows[:, length // 8 :].to(torch.int32)
    return torch.nn.functional.embedding(known, _known_scales(rows.device)).squeeze(-1)


def _known_scales(device: torch.device) -> torch.Tensor:
    """Return the scale of each byte, shape (256, 1)."""
    halves = torch.arange(-_ONE, _NAN + 1 - _ONE, dtype=torch.float64, device=device)
    scales = torch.exp2(halves / 2).to(torch.float32)
    scales[0], scales[_NAN] = 0.0, float("nan")
    return scales.unsqueeze(1)


def _signs(device: torch.device) -> torch.Tensor:
    """Return the eight signs of each byte, shape (256, 8)."""
    bits = torch.arange(256, device=device).unsqueeze(1) >> torch.arange(8, device=device)
    return (bits & 1).to(torch.float32).mul_(2).sub_(1)


class OneBitMean:
    """Averages tensors by two exchanges of signs.

    Parameters
    ----------
    exchange : Exchange
        What carries the bytes.
    residuals : Residuals
        Where the worker's and the server's residual are kept, as ``NAME/worker`` and
        ``NAME/server``.
    block : int
        Elements per scale, a multiple of 8. All of them move by their common scale, so the fewer
        the better; where the rows of a matrix are a multiple of it, no two rows share one, and
        rows without a gradient keep still.
    scale : str
        ``rms``: root mean square, as the paper has it. ``l1``: mean magnitude, which loses least
        in one step and never makes the residual larger than what came in.
    error_feedback : bool
        False: what is left out is lost.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """

    def __init__(
        self,
        exchange: Exchange,
        residuals: Residuals,
        *,
        block: int = 64,
        scale: str = "rms",
        error_feedback: bool = True,
    ) -> None:
        require(block >= 8 and block % 8 == 0, "block", block, "a multiple of 8")
        require(scale in SCALES, "scale", scale, " or ".join(map(repr, SCALES)))
        self._exchange = exchange
        self._residuals = residuals
        self._block = block
        self._scale = scale
        self._error_feedback = error_feedback

    def mean(self, name: str, tensors: Sequence[torch.Tensor]) -> Reduction:
        """Average tensors in place.

        Values that are not finite on any rank make all tensors NaN on all ranks, and leave the
        residuals as they were.

        Parameters
        ----------
        name : str
            Of the residuals.
        tensors : sequence of torch.Tensor
            Floating; accumulated in float32.

        Returns
        -------
        Reduction
            What runs it.
        """
        if not tensors:
            return
        layout = _Layout(
            tuple(t.numel() for t in tensors), self._block, len(self._exchange.members)
        )
        open_names: list[str] = []
        try:
            yield from self._two_phases(name, tensors, layout, open_names)
        except BaseException:
            for opened in open_names:
                self._residuals.rollback(opened)
            raise

    def _two_phases(
        self, name: str, tensors: Sequence[torch.Tensor], layout: _Layout, open_names: list[str]
    ) -> Reduction:
        exchange, device = self._exchange, tensors[0].device
        members = list(exchange.members)
        counts = layout.counts().to(device)
        own = members.index(exchange.rank)
        total = layout.join(tensors)
        aligned = total.view(-1)[: layout.aligned]
        if self._error_feedback:
            aligned += self._open(f"{name}/worker", aligned, open_names)
        rows = encode(total, counts, self._scale)
        sent = torch.zeros(exchange.size, layout.row_bytes, dtype=torch.uint8, device=device)
        sent[members] = rows
        received = torch.zeros_like(sent)
        yield exchange.swap(received, sent)
        mine = counts[own : own + 1]
        shares = decode(received[members], mine.expand(len(members), -1, -1), self._block)
        average = shares.sum(0, keepdim=True).div_(len(members))
        if self._error_feedback:
            server = f"{name}/server"
            self._residuals.respread(server, layout.aligned, layout.length, exchange, device)
            average += self._open(server, average.view(-1), open_names).view_as(average)
        row = encode(average, mine, self._scale)
        gathered = torch.zeros_like(sent)
        yield exchange.gather(gathered, row.view(-1))
        result = decode(gathered[members], counts, self._block)
        finite = bool(torch.isfinite(_scales(gathered[members], layout.length)).all())
        if not finite:
            result.fill_(float("nan"))
        layout.part(result, tensors)
        while open_names:
            opened = open_names.pop()
            if not finite:
                self._residuals.rollback(opened)
            elif opened.endswith("/worker"):
                total -= decode(rows, counts, self._block)
                self._residuals.commit(opened, aligned.clone())
            else:
                left = average.sub_(decode(row, mine, self._block))
                self._residuals.commit(opened, left.view(-1))

    def _open(self, name: str, like: torch.Tensor, open_names: list[str]) -> torch.Tensor:
        residual = self._residuals.get(name, like.shape, torch.float32, like.device)
        open_names.append(name)
        return residual
