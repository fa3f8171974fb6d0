"""What the cost model says of all_reduce with a codec, and from which size on it is worth it.

The terms are those of the two phases that a codec's all_reduce takes (see
``native/comm/algorithms/two_phase.cpp``); what encoding and decoding cost is added, as if nothing
overlapped: small ops are one piece, and of large ones the slower of wire and encoding decides.

References
----------
.. [1] Tang et al., "1-bit Adam", ICML 2021, arXiv:2102.02888, section 5: the two phases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.topology.link_fit import LinkModel

# Looked at: powers of two, and those half way between them, from 256 bytes to a gigabyte.
_SIZES = tuple(part << power for power in range(7, 30) for part in (2, 3))


@dataclass(frozen=True, slots=True)
class CodecCost:
    """What a codec makes of a byte of input.

    Parameters
    ----------
    ratio : float
        Bytes of its frame.
    encode, decode : float
        Seconds.
    """

    ratio: float
    encode: float
    decode: float


def coded_seconds(link: LinkModel, ranks: int, size: int, codec: CodecCost) -> float:
    """Predict an all_reduce with a codec.

    Parameters
    ----------
    link : LinkModel
        Constants of the links.
    ranks : int
        At least 1, each on a host of its own.
    size : int
        Bytes of the array.
    codec : CodecCost
        What it costs.

    Returns
    -------
    float
        Seconds.
    """
    hops = 2 if ranks > 1 else 0
    wire = 2 * (ranks - 1) / ranks * size * codec.ratio
    coding = size * ((1 + 1 / ranks) * codec.encode + 2 * codec.decode)
    return hops * link.alpha + wire * link.beta + coding


def break_even(
    link: LinkModel, ranks: int, codec: CodecCost, plain: Callable[[int], float]
) -> int | None:
    """Return the size from which on an all_reduce with the codec is predicted to be faster.

    Parameters
    ----------
    link, ranks, codec
        As for `coded_seconds`.
    plain : callable
        Seconds that an all_reduce of so many bytes takes without it.

    Returns
    -------
    int or None
        Bytes, to a factor of 1.5, 256 at least; None: at no size up to a gigabyte.
    """
    least = None
    for size in reversed(_SIZES):
        if coded_seconds(link, ranks, size, codec) >= plain(size):
            break
        least = size
    return least
