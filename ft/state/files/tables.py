"""What stands before the data of a state's files: as it is there, or as parity files have it."""

from __future__ import annotations

import xxhash

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.ft.state.files import code, container, manifest
from holdfast.ft.state.files.container import Table
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.schemes import Place
from holdfast.ft.state.layout.head import Head


class Tables:
    """Of one state; each is read once, and has the digest that the manifest says.

    Parameters
    ----------
    place : Place
        The run's.
    whole : Manifest
        The state's.
    """

    def __init__(self, place: Place, whole: Manifest) -> None:
        self._place, self._whole = place, whole
        self._found: dict[str, Table] = {}

    @property
    def url(self) -> str:
        """Where the state is."""
        return f"{self._place.url.rstrip('/')}/{self._whole.folder}"

    def read(self, file: File, at: int, nbytes: int) -> bytes:
        """Return a range of a file, shorter where it ends.

        Parameters
        ----------
        file : File
            Of the manifest.
        at, nbytes : int
            The range.
        """
        return self._place.read(self._whole.folder, file.name, at, nbytes)

    def of(self, file: File) -> Table:
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
        if file.name in self._found:
            return self._found[file.name]
        try:
            table = self.own(file)
        except HoldfastError:
            found = self._guarded(file)
            if found is None:
                raise
            table = found
        self._found[file.name] = table
        return table

    def lend(self, file: File, data: bytes) -> None:
        """Take what stands before a file's data of somebody who has it.

        Parameters
        ----------
        file : File
            Of the manifest.
        data : bytes
            The table.
        """
        self._found[file.name] = self._parsed(file, data)

    def written(self, file: File) -> bytes:
        """Return what stands before a file's data, as it is at the place.

        Parameters
        ----------
        file : File
            Of the manifest.
        """
        start = self.read(file, 0, container.LENGTH_BYTES)
        where = f"{self.url}/{file.name}"
        return self.read(file, 0, container.table_length(start, where))

    def own(self, file: File) -> Table:
        """Return what stands before a file's data at the place.

        Parameters
        ----------
        file : File
            Of the manifest.
        """
        return self._parsed(file, self.written(file))

    def _parsed(self, file: File, data: bytes) -> Table:
        where = f"{self.url}/{file.name}"
        if xxhash.xxh3_128_hexdigest(data) != file.table:
            raise ProtocolError(
                f"{where}: is not the file that was written: its table has another digest"
            )
        table = container.parse(data, where)
        if table.begins + table.nbytes != file.nbytes:
            raise ProtocolError(f"{where}: {file.nbytes} bytes, and its table tells of others")
        self._refuse_other(file, table, where)
        return table

    def _guarded(self, file: File) -> Table | None:
        """Make a body's table again of what the parity of its group has of it."""
        group = None if file.is_parity else code.groups_of(self._whole).get(file.rank)
        names = [manifest.parity_name(rank) for rank in group.ranks] if group else []
        for other in self._whole.files:
            if other.name not in names:
                continue
            try:
                kept = (self.of(other).parity or {}).get(code.GUARDED)
                told = kept.get(str(file.rank)) if isinstance(kept, dict) else None
                head, tiles = code.guarded(told, f"{self.url}/{other.name}")
                return self._parsed(file, container.of_body(Head.from_bytes(head), tiles))
            except HoldfastError:
                continue
        return None

    def _refuse_other(self, file: File, table: Table, where: str) -> None:
        ours = (self._whole.job, self._whole.step, self._whole.epoch, file.rank)
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
