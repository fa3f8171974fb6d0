"""A state in files, read back: every byte that is given out has the hash of the captured one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import xxhash

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.ft.state.files import container, manifest
from holdfast.ft.state.files.container import TILE, Table
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.schemes import Place
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
    """

    place: Place
    manifest: Manifest
    _tables: dict[str, Table] = field(default_factory=dict)

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
        return f"{self.place.url.rstrip('/')}/{self.manifest.folder}"

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
        if file.name in self._tables:
            return self._tables[file.name]
        where = f"{self.url}/{file.name}"
        start = self._read(file, 0, container.LENGTH_BYTES)
        data = self._read(file, 0, container.table_length(start, where))
        if xxhash.xxh3_128_hexdigest(data) != file.table:
            raise ProtocolError(
                f"{where}: is not the file that was written: its table has another digest"
            )
        table = container.parse(data, where)
        if table.begins + table.nbytes != file.nbytes:
            raise ProtocolError(f"{where}: {file.nbytes} bytes, and its table tells of others")
        self._refuse_other(file, table, where)
        self._tables[file.name] = table
        return table

    def _refuse_other(self, file: File, table: Table, where: str) -> None:
        ours = (self.manifest.job, self.manifest.step, self.manifest.epoch, file.rank)
        if file.is_parity:
            said = table.parity or {}
            theirs = tuple(said.get(key) for key in ("job", "step", "epoch", "rank"))
        else:
            head = table.head
            theirs = (head.job, head.step, head.epoch, head.rank) if head is not None else ()
        if ours != theirs:
            raise ProtocolError(
                f"{where}: is of (job, step, epoch, rank) {theirs}; accepted: {ours}"
            )

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
            With the file and the tile that is damaged or missing.
        """
        table = self.table(file)
        last = len(table.tiles) if count is None else min(len(table.tiles), first + count)
        begin, end = first * TILE, min(table.nbytes, last * TILE)
        data = self._read(file, table.begins + begin, end - begin)
        for tile in range(first, last):
            part = data[(tile - first) * TILE : (tile - first + 1) * TILE]
            if xxhash.xxh3_64_intdigest(part) != table.tiles[tile]:
                what = "is cut" if len(data) < end - begin and not part else "is damaged"
                raise ProtocolError(
                    f"{self.url}/{file.name}: tile {tile} of {len(table.tiles)} {what}"
                )
        return data

    def body(self, rank: int) -> bytes:
        """Return a rank's whole body.

        Parameters
        ----------
        rank : int
            Whose.
        """
        return self.tiles(self.manifest.file_of(rank))

    def gather(self, reading: Reading) -> bytes:
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
        return found.tobytes()

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
        return self.gather(Reading(rank, *spans, ()))

    def _read(self, file: File, at: int, nbytes: int) -> bytes:
        return self.place.read(self.manifest.folder, file.name, at, nbytes)

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
        count = len(self.table(file).tiles)
        for first in range(0, count, _AT_ONCE):
            try:
                self.tiles(file, first, _AT_ONCE)
            except ProtocolError:
                # Again one by one, so that each tile that is damaged is named.
                for tile in range(first, min(count, first + _AT_ONCE)):
                    try:
                        self.tiles(file, tile, 1)
                    except ProtocolError as error:
                        yield str(error)
        if self._read(file, file.nbytes, 1):
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
