"""A sparse frame: of each chunk of 4096 elements the largest, places in 12 bits, values in 2.

SparseLoCo, arXiv:2508.15706, section 3: top-k by chunk, so that a place needs 12 bits; values
quantised to 2 bits. Here these are a sign, and which of two magnitudes of the chunk it is: the mean
of those above the chosen ones' mean, and of the rest, each in bfloat16.

A frame is all magnitudes, then all places, then all values: with 64 of a chunk's elements 116 bytes
stand for 16384.
"""

from __future__ import annotations

import math

import torch

CHUNK = 4096
# Values are packed four to a byte, places two to three bytes.
_MULTIPLE = 4


def chosen(ratio: float) -> int:
    """Return how many elements of a chunk a frame has.

    Parameters
    ----------
    ratio : float
        The part of the elements, above 0, to 1; rounded up to a multiple of four.
    """
    return min(CHUNK, math.ceil(ratio * CHUNK / _MULTIPLE) * _MULTIPLE)


def length(count: int, ratio: float) -> int:
    """Return a frame's bytes.

    Parameters
    ----------
    count : int
        Elements of the tensor.
    ratio : float
        As for `chosen`.
    """
    k = chosen(ratio)
    return -(-count // CHUNK) * (4 + k * 3 // 2 + k // 4)


def encode(flat: torch.Tensor, ratio: float) -> torch.Tensor:
    """Return the frame of a vector, uint8.

    Parameters
    ----------
    flat : torch.Tensor
        One-dimensional, floating, finite.
    ratio : float
        As for `chosen`.
    """
    k = chosen(ratio)
    chunks = -(-flat.numel() // CHUNK)
    padded = torch.zeros(chunks * CHUNK, dtype=torch.float32, device=flat.device)
    padded[: flat.numel()] = flat
    rows = padded.view(chunks, CHUNK)
    places = torch.topk(rows.abs(), k, sorted=False).indices.sort(dim=1).values
    values = rows.gather(1, places)
    size = values.abs()
    large = size > size.mean(dim=1, keepdim=True)
    magnitudes = torch.stack([_mean(size, ~large), _mean(size, large)], dim=1)
    codes = (values < 0).to(torch.uint8) | (large.to(torch.uint8) << 1)
    return torch.cat(
        [
            magnitudes.to(torch.bfloat16).view(torch.uint8).reshape(-1),
            _pack_places(places.reshape(-1)),
            _pack_codes(codes.reshape(-1)),
        ]
    )


def decode(frame: torch.Tensor, count: int, ratio: float) -> torch.Tensor:
    """Return the vector that a frame stands for, float32.

    Parameters
    ----------
    frame : torch.Tensor
        As `encode` made it of `count` elements, with this ratio.
    count : int
        Elements of the vector.
    ratio : float
        As for `chosen`.
    """
    k = chosen(ratio)
    chunks = -(-count // CHUNK)
    head, middle = chunks * 4, chunks * k * 3 // 2
    magnitudes = frame[:head].clone().view(torch.bfloat16).to(torch.float32).view(chunks, 2)
    places = _unpack_places(frame[head : head + middle]).view(chunks, k)
    codes = _unpack_codes(frame[head + middle :]).view(chunks, k)
    values = magnitudes.gather(1, (codes >> 1).to(torch.int64))
    values = torch.where((codes & 1).bool(), -values, values)
    rows = torch.zeros(chunks, CHUNK, dtype=torch.float32, device=frame.device)
    return rows.scatter_(1, places, values).view(-1)[:count]


def _mean(size: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    return (size * which).sum(dim=1) / which.sum(dim=1).clamp(min=1)


def _pack_places(places: torch.Tensor) -> torch.Tensor:
    first, second = places.view(-1, 2).unbind(1)
    parts = [first & 0xFF, (first >> 8) | ((second & 0xF) << 4), second >> 4]
    return torch.stack(parts, dim=1).to(torch.uint8).view(-1)


def _unpack_places(packed: torch.Tensor) -> torch.Tensor:
    low, middle, high = packed.to(torch.int64).view(-1, 3).unbind(1)
    return torch.stack([low | ((middle & 0xF) << 8), (middle >> 4) | (high << 4)], dim=1).view(-1)


def _pack_codes(codes: torch.Tensor) -> torch.Tensor:
    a, b, c, d = codes.view(-1, 4).unbind(1)
    return a | (b << 2) | (c << 4) | (d << 6)


def _unpack_codes(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack([(packed >> shift) & 3 for shift in (0, 2, 4, 6)], dim=1).view(-1)
