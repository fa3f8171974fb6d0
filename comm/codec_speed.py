"""How fast this machine encodes and decodes, measured in some milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from holdfast import _core
from holdfast.compress.codec import measured_dtype
from holdfast.topology.codec_cost import CodecCost

# Fits into the caches, as the pieces of an op do.
_ELEMENTS = 1 << 16
_RUNS = 20


def measure(codec: str) -> CodecCost:
    """Measure what a codec costs on this machine.

    Parameters
    ----------
    codec : str
        Its text.

    Returns
    -------
    CodecCost
        Of Gaussian numbers that are in the cache, bfloat16 for a codec that takes nothing else,
        and else float32; the fastest of some runs.
    """
    dtype = measured_dtype(codec)
    floats = np.random.default_rng(0).standard_normal(_ELEMENTS, dtype=np.float32)
    values = (_core.encode("bf16", floats) if dtype == "bf16" else floats).view(np.uint8)
    room = np.empty(4 * values.nbytes, np.uint8)
    frame = room[: _core.encode_bytes(room, codec, values, dtype)].copy()
    encode = _fastest(lambda: _core.encode_bytes(room, codec, values, dtype)) / values.nbytes
    out = np.empty_like(values)
    decode = _fastest(lambda: _core.decode_bytes(out, codec, frame, dtype)) / values.nbytes
    return CodecCost(len(frame) / values.nbytes, encode, decode)


def _fastest(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best
