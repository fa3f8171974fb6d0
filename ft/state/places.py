"""Who has what of which codeword of a code, in memory and in files."""

from __future__ import annotations

from typing import NamedTuple

TILE = 1 << 20


class Places(NamedTuple):
    """Who has what of which codeword.

    Codeword j has parity row i on member j + i, and data column c on member j + m + c, all modulo
    n; column c is slice c of that member's body.

    Parameters
    ----------
    data, parity : int
        k and m.
    """

    data: int
    parity: int

    @property
    def members(self) -> int:
        """Their number."""
        return self.data + self.parity

    def row(self, member: int, codeword: int) -> int:
        """The shard that a member has of a codeword: data from 0 on, then parity."""
        place = (member - codeword) % self.members
        return self.data + place if place < self.parity else place - self.parity

    def codeword_of_slice(self, member: int, column: int) -> int:
        """The codeword that a slice of a member's body is in."""
        return (member - self.parity - column) % self.members

    def codeword_of_row(self, member: int, row: int) -> int:
        """The codeword that a row of a member's parity is of."""
        return (member - row) % self.members


def slice_tiles(largest: int, data: int) -> int:
    """Return how many tiles a slice has, where the largest body has so many bytes.

    Parameters
    ----------
    largest : int
        Bytes.
    data : int
        Slices of a body.
    """
    tiles = -(-largest // TILE)
    return -(-tiles // data)


def room(coding_data: int, parity: int, body: int) -> tuple[int, int]:
    """Return the bytes of a padded body and of parity, where the largest body has so many."""
    if parity == 0:
        return body, 0
    tiles = slice_tiles(body, coding_data)
    return tiles * coding_data * TILE, tiles * parity * TILE
