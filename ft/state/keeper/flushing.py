"""Snapshots of keepers into files, while training goes on.

Each keeper writes its rank's part in its own time, by a worker that nobody waits for; what it has
written it tells in the first op of later snapshots. When all have written a snapshot, each writes
the manifest (of disks that are not shared each needs one), and then older states go.
"""

from __future__ import annotations

import base64
import queue
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ft.state.files import flush
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.slots import Id, Slot
from holdfast.ft.state.keeper.worker import Worker
from holdfast.ft.state.layout.head import Head, layout_digest


class Flushing:
    """Of one keeper.

    Parameters
    ----------
    url : str
        Where a run's states are.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._place = place(url)
        self._worker = Worker(lambda error: self._ended.put((self._id, f"{error}")))
        self._ended: queue.SimpleQueue[tuple[Id, str]] = queue.SimpleQueue()
        self._id: Id = (0, 0)
        self._said: dict[str, Any] | None = None  # once this rank's part is written
        self.flushed: Id | None = None
        """The newest snapshot of which there is a manifest."""

    def begin(self, slot: Slot) -> None:
        """Write a slot, which stays as it is until this has ended."""
        self._id, self._said = slot.id, None

        def task() -> Iterator[None]:
            self._said = self._written(slot)
            yield

        self._worker.add(task())

    def said(self) -> dict[str, Any] | None:
        """Return what others are to be told: that this rank's part is written."""
        return self._said

    def heard(self, told: Mapping[int, Any], world: int) -> None:
        """Write the manifest when all have written one snapshot."""
        there = [one.get("written") for one in told.values()]
        if len(there) < world or any(one is None or one["id"] != list(self._id) for one in there):
            return

        def task() -> Iterator[None]:
            self._ended.put((self._id, self._commit(there)))
            yield

        self._said = None
        self._worker.add(task())

    def ended(self) -> Iterator[tuple[Id, str]]:
        """Yield snapshots whose flush has ended, and why it failed; empty: it did not."""
        while not self._ended.empty():
            yield self._ended.get()

    def now(self, slot: Slot | None, peers: Peers) -> None:
        """Write the newest snapshot at once, if any has not; collective, at the end of a job."""
        mine = slot.id if slot is not None else None
        told, missing = peers.tell_json({"newest": mine, "needs": mine and self.flushed != mine})
        newest = {tuple(one.get("newest") or ()) for one in told.values()}
        needed = any(one.get("needs") for one in told.values())
        if missing or len(newest) != 1 or not needed or slot is None:
            return
        told, missing = peers.tell_json({"written": self._written(slot)})
        if not missing:
            self._commit([one["written"] for one in told.values()])

    def _written(self, slot: Slot) -> dict[str, Any]:
        """Write this rank's part, and return what others are to know of it."""
        assert slot.part is not None
        said: dict[str, Any] = {"id": list(slot.id), "error": ""}
        try:
            head = Head.from_bytes(slot.part.head)
            tiles = [int(value) for value in slot.hashes]
            file = flush.write_body(self._place, head, slot.body, tiles)
        except HoldfastError as error:
            return {**said, "error": str(error)}
        text = base64.b64encode(slot.part.head).decode()
        return {**said, "file": [file.name, file.nbytes, file.table], "head": text}

    def _commit(self, written: list[Any]) -> str:
        """Make the files of all ranks a state; return why it is none."""
        for one in written:
            if one["error"]:
                return str(one["error"])
        heads = [Head.from_bytes(base64.b64decode(one["head"])) for one in written]
        heads.sort(key=lambda head: head.rank)
        first = heads[0]
        files = tuple(sorted((File(*one["file"]) for one in written), key=lambda file: file.name))
        whole = Manifest(
            first.job, first.step, first.epoch, first.world, layout_digest(heads), files
        )
        try:
            flush.commit(self._place, whole)
            self.flushed = tuple(written[0]["id"])
            if first.rank == 0 or self.url.startswith(("file:", "/")):
                flush.prune(self._place)
        except HoldfastError as error:
            return str(error)
        return ""
