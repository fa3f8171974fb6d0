"""A state in files, read back: every byte that is given out has the hash of the captured one.

What is lost or damaged is made again of the other files, where a code was used and enough is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import xxhash

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.ft.state.files import code, manifest
from holdfast.ft.state.files.code import Key
from holdfast.ft.state.files.container import TILE, Table
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.schemes import Place
from holdfast.ft.state.files.tables import Tables
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.layout.plan import Reading

# Tiles that are read at once where a range has many.
_AT_ONCE = 32


@dataclass(slots=True)
class Saved:
    """A state in files.

    Parameters
    ----------
    place : Place
        The run's.
    manifest : Manifest
        Which files there are.
    lent : dict of Key to bytes
        Tiles that are not at the place, and that somebody else had.
    """

    place: Place
    manifest: Manifest
    lent: dict[Key, bytes] = field(default_factory=dict)
    tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        self.tables = Tables(self.place, self.manifest)

    @classmethod
    def open(cls, place: Place, folder: str) -> Saved:
        """Read a state's manifest.

        Parameters
        ----------
        place : Place
            The run's.
        folder : str
            The state's.

        Raises
        ------
        ProtocolError
            When there is none, it is damaged, or it is of another folder.
        """
        where = f"{place.url}/{folder}/{manifest.NAME}"
        whole = Manifest.from_bytes(place.read(folder, manifest.NAME), where)
        if whole.folder != folder:
            raise ProtocolError(f"{where}: is of {whole.folder}; somebody has moved it")
        return cls(place, whole)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.tables.url

    def heads(self) -> list[Head]:
        """Return the heads of all ranks.

        Raises
        ------
        ProtocolError
            When a file is missing, cut, swapped or another job's.
        """
        heads = [self.head(rank) for rank in range(self.manifest.world)]
        if layout_digest(heads) != self.manifest.layout:
            raise ProtocolError(f"{self.url}: the files have another layout than the manifest says")
        return heads

    def head(self, rank: int) -> Head:
        """Return one rank's head.

        Parameters
        ----------
        rank : int
            Whose.
        """
        head = self.table(self.manifest.file_of(rank)).head
        assert head is not None
        return head

    def table(self, file: File) -> Table:
        """Return what stands before a file's data, checked against the manifest.

        Parameters
        ----------
        file : File
            Of the manifest.

        Raises
        ------
        ProtocolError
            With the file, and what is wrong.
        """
        return self.tables.of(file)

    # ---- bytes -----------------------------------------------------------------------------------

    def tiles(self, file: File, first: int = 0, count: int | None = None) -> bytes:
        """Return tiles of a file's data, each of which has its hash.

        Parameters
        ----------
        file : File
            Of the manifest.
        first, count : int
            Which; default: all from the first.

        Raises
        ------
        ProtocolError
            With the file and the tile that is damaged or missing, and cannot be made again.
        """
        data, bad = self._checked(file, first, count)
        if not bad:
            return data
        whole = bytearray(data)
        for tile in bad:
            made = self._made_again(file, tile)
            if made is None:
                raise ProtocolError(self._complaint(file, tile))
            at = (tile - first) * TILE
            whole[at : at + len(made)] = made
        return bytes(whole)

    def _checked(self, file: File, first: int, count: int | None) -> tuple[bytes, list[int]]:
        """Return tiles as they are at the place, and which of them are not as they were written."""
        table = self.table(file)
        last = len(table.tiles) if count is None else min(len(table.tiles), first + count)
        begin, end = first * TILE, min(table.nbytes, last * TILE)
        try:
            data = self.tables.read(file, table.begins + begin, end - begin)
        except HoldfastError:
            data = b""
        data = data.ljust(max(0, end - begin), b"\0")
        bad = []
        for tile in range(first, last):
            at = (tile - first) * TILE
            if xxhash.xxh3_64_intdigest(data[at : at + TILE]) != table.tiles[tile]:
                bad.append(tile)
        return data, bad

    def _complaint(self, file: File, tile: int) -> str:
        table = self.table(file)
        at = table.begins + tile * TILE
        try:
            what = "is damaged" if self.tables.read(file, at, 1) else "is cut"
        except HoldfastError:
            what = "is not there"
        return f"{self.url}/{file.name}: tile {tile} of {len(table.tiles)} {what}"

    # ---- what is made again ----------------------------------------------------------------------

    def tile(self, key: Key) -> bytes | None:
        """Return a tile as it was written, of the place or lent; None: it is not there.

        Parameters
        ----------
        key : Key
            Which. Behind a body's end are zeros.
        """
        if key in self.lent:
            return self.lent[key]
        file = next((one for one in self.manifest.files if one.name == key[0]), None)
        try:
            if file is None:
                return None
            if key[1] >= len(self.table(file).tiles):
                return None if file.is_parity else b""
            data, bad = self._checked(file, key[1], 1)
        except HoldfastError:
            return None
        return None if bad else data

    def _made_again(self, file: File, tile: int) -> bytes | None:
        """Return a tile that is damaged or missing, made of the others'; None: it cannot be."""
        table = self.table(file)
        length = min(TILE, table.nbytes - tile * TILE)
        made = self.lent.get((file.name, tile))
        group = None if file.is_parity else code.groups_of(self.manifest).get(file.rank)
        if made is None and group is not None:
            parts: dict[Key, bytes] = {}

            def has(key: Key) -> bool:
                found = self.tile(key)
                if found is not None:
                    parts[key] = found
                return found is not None

            recipe = code.recipe(group, file.rank, tile, has)
            if recipe is not None:
                made = recipe.made([parts[key] for key in recipe.tiles])
        if made is None or xxhash.xxh3_64_intdigest(made[:length]) != table.tiles[tile]:
            return None
        return made[:length]

    def body(self, rank: int) -> bytes:
        """Return a rank's whole body.

        Parameters
        ----------
        rank : int
            Whose.
        """
        return self.tiles(self.manifest.file_of(rank))

    def gather(self, reading: Reading) -> memoryview:
        """Return the ranges of a reading, one after the other; only their tiles are read.

        Parameters
        ----------
        reading : Reading
            Of a plan.
        """
        file = self.manifest.file_of(reading.rank)
        found = np.empty(reading.nbytes, dtype=np.uint8)
        held: tuple[int, np.ndarray] = (0, np.empty(0, np.uint8))
        at = 0
        for start, length in zip(reading.starts.tolist(), reading.lengths.tolist(), strict=True):
            done = 0
            while done < length:
                position = start + done
                begin, data = held
                if not begin <= position < begin + len(data):
                    tile = position // TILE
                    needed = (start + length - 1) // TILE - tile + 1
                    data = np.frombuffer(
                        self.tiles(file, tile, min(needed, _AT_ONCE)), dtype=np.uint8
                    )
                    begin = tile * TILE
                    held = (begin, data)
                count = min(length - done, begin + len(data) - position)
                found[at : at + count] = data[position - begin : position - begin + count]
                at, done = at + count, done + count
        return found.data

    def rest(self, rank: int) -> bytes:
        """Return a rank's pickled rest.

        Parameters
        ----------
        rank : int
            Whose.
        """
        return self.part(rank, *self.head(rank).objects)

    def part(self, rank: int, at: int, nbytes: int) -> bytes:
        """Return a range of a rank's body.

        Parameters
        ----------
        rank : int
            Whose.
        at, nbytes : int
            The range.
        """
        if not nbytes:
            return b""
        spans = (np.array([at], np.int64), np.array([nbytes], np.int64))
        return bytes(self.gather(Reading(rank, *spans, ())))

    # ---- all of it -------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Read everything, and return what is wrong, by file and tile; nothing: it is whole."""
        found = [problem for each in self.damage().values() for problem in each]
        if not found:
            try:
                self.heads()
            except HoldfastError as error:
                found.append(str(error))
        return found

    def is_enough(self) -> bool:
        """Read everything, and return whether every byte of every rank's body can be had."""
        if not self.problems():
            return True
        try:
            bad = {file.name: self.bad_tiles(file) for file in self.manifest.files}
            wrong = {name: tiles for name, tiles in bad.items() if tiles is None or tiles}
            return bool(wrong) and not code.beyond_repair(self.manifest, wrong) and self._fits()
        except HoldfastError:
            return False

    def _fits(self) -> bool:
        return len(self.heads()) == self.manifest.world

    def bad_tiles(self, file: File) -> list[int] | None:
        """Read a file, and return its tiles that are not as written; None: nor is its table.

        Parameters
        ----------
        file : File
            Of the manifest.
        """
        try:
            count = len(self.tables.own(file).tiles)
        except HoldfastError:
            return None
        found: list[int] = []
        for first in range(0, count, _AT_ONCE):
            found += self._checked(file, first, min(_AT_ONCE, count - first))[1]
        return found

    def damage(self) -> dict[str, list[str]]:
        """Read everything, and return what is wrong with each file that is not as it was written.

        Of disks that hosts do not share, the others' files are not there. Who has enough of the
        rest, parity included, puts them together by a code.
        """
        found: dict[str, list[str]] = {}
        for file in self.manifest.files:
            try:
                told = [*self._damage(file)]
            except HoldfastError as error:
                told = [str(error)]
            if told:
                found[file.name] = told
        return found

    def _damage(self, file: File) -> Iterator[str]:
        self.tables.own(file)
        for tile in self.bad_tiles(file) or ():
            yield self._complaint(file, tile)
        if self.tables.read(file, file.nbytes, 1):
            yield f"{self.url}/{file.name}: has bytes after its end"


def states(place: Place) -> Iterator[Saved]:
    """Yield all states of a place that have a manifest, the newest first; nothing else is read.

    Parameters
    ----------
    place : Place
        The run's.
    """
    found = sorted(
        (key, name) for name in place.folders() if (key := manifest.of_folder(name)) is not None
    )
    for _, name in reversed(found):
        try:
            yield Saved.open(place, name)
        except HoldfastError:
            continue
