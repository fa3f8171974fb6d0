"""A shuffle that nobody stores: a keyed permutation of 0 to n - 1, computed where it is needed.

A Feistel network over pairs of numbers below s, the root of n rounded up, and cycle walking for the
few of the s * s pairs that are no index: Black and Rogaway, "Ciphers with arbitrary finite
domains", CT-RSA 2002, sections 3 (cycle walking) and 4 (generalised Feistel). The round function is
the finaliser of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014. It shuffles; it keeps no secret.
"""

from __future__ import annotations

import hashlib
import math
from typing import cast

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# Four make a Feistel network pseudorandom (Luby and Rackoff); one key has words for eight.
ROUNDS = 8


def permuted(places: npt.NDArray[np.int64], size: int, key: str) -> npt.NDArray[np.int64]:
    """Return where a permutation takes some places.

    Parameters
    ----------
    places : numpy.ndarray of int64
        0 to `size` - 1.
    size : int
        How many there are; below 2**62.
    key : str
        Each has a permutation of its own.

    Returns
    -------
    numpy.ndarray of int64
        As many, each 0 to `size` - 1.
    """
    keys = np.frombuffer(hashlib.blake2b(key.encode(), digest_size=8 * ROUNDS).digest(), "<u8")
    side = np.uint64(math.isqrt(size - 1) + 1)
    found = _network(places.astype(np.uint64), side, keys)
    # A place outside is taken on until it is inside: on its cycle lies the one that it began at.
    outside = np.flatnonzero(found >= np.uint64(size))
    while outside.size:
        found[outside] = _network(found[outside], side, keys)
        outside = outside[found[outside] >= np.uint64(size)]
    return found.astype(np.int64)


def _network(places: Words, side: np.uint64, keys: Words) -> Words:
    left, right = places // side, places % side
    for key in keys:
        left, right = right, (left + _mixed(right, key) % side) % side
    return cast(Words, left * side + right)


def _mixed(words: Words, key: np.uint64) -> Words:
    mixed = words * np.uint64(0x9E3779B97F4A7C15) + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return cast(Words, mixed ^ (mixed >> np.uint64(31)))
