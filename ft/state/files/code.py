"""The code over the files of a state: of which tiles of which files a lost tile is made again.

A manifest says which ranks are a group of the code. A rank's parity file has the parity that its
keeper held, and the heads and hashes of all bodies of the group, so that a file that is lost with
its host is made again byte by byte, its table included.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from holdfast import _core
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.ft.state.files.manifest import File, Manifest, body_name, parity_name
from holdfast.ft.state.layout.entry import MAX_SIZE, number
from holdfast.ft.state.layout.head import MAX_HEAD_BYTES
from holdfast.ft.state.places import TILE, Places, slice_tiles

GROUPS, GUARDED = "groups", "guarded"
# The most shards that a code has; native/erasure/code.h
_MOST_MEMBERS = 32
_HEX = 16

Key = tuple[str, int]
"""A tile: name of a file, and which of its data."""


class Group(NamedTuple):
    """Ranks whose bodies are coded together.

    Parameters
    ----------
    ranks : tuple of int
        By member.
    parity : int
        How many of them may be lost.
    largest : int
        Bytes of the largest body.
    """

    ranks: tuple[int, ...]
    parity: int
    largest: int

    @property
    def places(self) -> Places:
        """Who has what."""
        return Places(len(self.ranks) - self.parity, self.parity)

    @property
    def slice_tiles(self) -> int:
        """Tiles of a slice of a body."""
        return slice_tiles(self.largest, self.places.data)

    def told(self) -> list[Any]:
        """Return it for a manifest."""
        return [[*self.ranks], self.parity, self.largest]


def group_of(told: Any, world: int, what: str) -> Group:
    """Read a group of what need not be one.

    Parameters
    ----------
    told : object
        Of JSON.
    world : int
        Ranks of the state.
    what : str
        For messages.

    Raises
    ------
    ProtocolError
        With what is wrong.
    """
    if not isinstance(told, list) or len(told) != 3 or not isinstance(told[0], list):
        raise ProtocolError(f"{what}: a group of the code is no ranks, parity and bytes")
    ranks = tuple(number(rank, f"{what}: rank of a group", world - 1) for rank in told[0])
    parity = number(told[1], f"{what}: parity", _MOST_MEMBERS)
    if len({*ranks}) != len(ranks) or not 0 < parity < len(ranks) <= _MOST_MEMBERS:
        raise ProtocolError(f"{what}: a group of ranks {[*ranks]} with parity {parity}")
    return Group(ranks, parity, number(told[2], f"{what}: bytes of a body", MAX_SIZE))


def groups_of(whole: Manifest) -> dict[int, Group]:
    """Return the groups of a state by rank; empty: it has no parity.

    Parameters
    ----------
    whole : Manifest
        Of the state.

    Raises
    ------
    ProtocolError
        When they are none.
    """
    told = whole.code.get(GROUPS, [])
    what = f"manifest of step {whole.step}"
    if not isinstance(told, list):
        raise ProtocolError(f"{what}: its groups are no list")
    found: dict[int, Group] = {}
    for one in told:
        group = group_of(one, whole.world, what)
        if found.keys() & {*group.ranks}:
            raise ProtocolError(f"{what}: a rank is in two groups of the code")
        found |= dict.fromkeys(group.ranks, group)
    return found


# ---- what parity files have of the bodies --------------------------------------------------------


def guard(head: bytes, tiles: Sequence[int]) -> list[str]:
    """Return what a parity file has of a body that it guards.

    Parameters
    ----------
    head : bytes
        The body's.
    tiles : sequence of int
        XXH3-64 of its tiles.
    """
    hashes = "".join(f"{tile:016x}" for tile in tiles)
    return [base64.b64encode(zlib.compress(head, 1)).decode(), hashes]


def guarded(told: Any, what: str) -> tuple[bytes, list[int]]:
    """Read what a parity file has of a body.

    Parameters
    ----------
    told : object
        Of JSON.
    what : str
        For messages.

    Returns
    -------
    tuple of bytes and list of int
        Head, and hashes of the tiles.

    Raises
    ------
    ProtocolError
        When it is none.
    """
    try:
        packed, digits = told
        unpacker = zlib.decompressobj()
        head = unpacker.decompress(base64.b64decode(packed, validate=True), MAX_HEAD_BYTES)
        if not unpacker.eof:
            raise ValueError("a head that is cut, or too long")
        tiles = [int(digits[at : at + _HEX], 16) for at in range(0, len(digits), _HEX)]
    except (TypeError, ValueError, zlib.error) as error:
        raise ProtocolError(f"{what}: guards nothing: {error}") from None
    return head, tiles


# ---- tiles ---------------------------------------------------------------------------------------


class Recipe(NamedTuple):
    """What a tile is made of.

    Parameters
    ----------
    tiles : tuple of Key
        Whole tiles, padded with zeros.
    coefficients : tuple of int
        What each is multiplied by.
    """

    tiles: tuple[Key, ...]
    coefficients: tuple[int, ...]

    def made(self, parts: Sequence[bytes]) -> bytes:
        """Return the tile, a whole one.

        Parameters
        ----------
        parts : sequence of bytes
            Its tiles, of any length up to a whole one.
        """
        found = np.zeros(TILE, np.uint8)
        one, product = np.zeros(TILE, np.uint8), np.empty(TILE, np.uint8)
        for part, by in zip(parts, self.coefficients, strict=True):
            one[: len(part)] = np.frombuffer(part, np.uint8)
            one[len(part) :] = 0
            _core.multiply_tiles([product], [one], [by])
            found ^= product
        return found.tobytes()


def recipe(group: Group, rank: int, tile: int, has: Callable[[Key], bool]) -> Recipe | None:
    """Return what a tile of a rank's body is made of; None: too much is lost.

    Parameters
    ----------
    group : Group
        The rank's.
    rank, tile : int
        Which.
    has : callable
        Whether a tile of a file can be had; of a body, tiles behind its end are zeros.
    """
    places, tiles = group.places, group.slice_tiles
    member = group.ranks.index(rank)
    column, offset = divmod(tile, max(1, tiles))
    if column >= places.data:
        return None
    codeword = places.codeword_of_slice(member, column)
    keys: dict[int, Key] = {}
    for other, of in enumerate(group.ranks):
        shard = places.row(other, codeword)
        if shard < places.data:
            key = (body_name(of), shard * tiles + offset)
        else:
            key = (parity_name(of), (shard - places.data) * tiles + offset)
        if other != member and has(key):
            keys[shard] = key
    try:
        code = _core.ErasureCode(places.data, places.parity)
        sources, _, rows = code.plan(sorted(keys), [column])
    except HoldfastError:
        return None
    return Recipe(tuple(keys[shard] for shard in sources), tuple(rows[0]))


def beyond_repair(whole: Manifest, bad: Mapping[str, Collection[int] | None]) -> list[str]:
    """Return what of a state's bodies cannot be had; empty: all of them can.

    Parameters
    ----------
    whole : Manifest
        Of the state.
    bad : mapping of str to collection of int
        By file: tiles that are not as they were written; None: all of it, with its table.

    Raises
    ------
    ProtocolError
        When the manifest's groups are none.
    """
    groups = groups_of(whole)
    if not groups:
        return sorted(bad)
    sizes = {file.name: file.nbytes for file in whole.files}

    def has(key: Key) -> bool:
        wrong = bad.get(key[0], ())
        return key[0] in sizes and wrong is not None and key[1] not in wrong

    found = []
    for name, wrong in sorted(bad.items()):
        file = File(name, sizes[name], "")
        if file.is_parity:
            continue
        group = groups.get(file.rank)
        if group is None:
            found.append(name)
            continue
        if wrong is None:
            guards = (parity_name(rank) for rank in group.ranks)
            if not any(guard in sizes and bad.get(guard, ()) is not None for guard in guards):
                found.append(name)
                continue
            most = group.places.data * group.slice_tiles
            wrong = range(min(most, -(-file.nbytes // TILE)))
        lost = [tile for tile in wrong if recipe(group, file.rank, tile, has) is None]
        if lost:
            found.append(f"{name}: {len(lost)} tiles, the first of them {lost[0]}")
    return found
