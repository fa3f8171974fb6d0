"""Snapshots of keepers into files, while training goes on.

Each keeper writes its rank's part, and the parity that it holds, in its own time, by a worker that
nobody waits for; what it has done it tells in the first op of later snapshots. When all have
written a snapshot, each writes the manifest (of disks that are not shared each needs one), and
reads back what it wrote. When all have found it whole, older states go.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ft.state.files import code, flush, manifest
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.saved import Saved
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.keeper.capture import Hashes
from holdfast.ft.state.keeper.ops import Ops
from holdfast.ft.state.keeper.slots import Id, Part, Slot
from holdfast.ft.state.keeper.worker import Worker
from holdfast.ft.state.layout.head import Head, layout_digest

# For what is being written when a job ends; a disk that hangs is not waited for longer.
_UNDER_WAY_S = 600.0


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
        self._worker = Worker(lambda error: self._ended.put((self._begun, f"{error}")))
        self._ended: queue.SimpleQueue[tuple[Id, str]] = queue.SimpleQueue()
        self._begun: Id = (0, 0)  # what the state machine knows to be under way, or to have been
        self._id: Id = (0, 0)  # what is being written, which is another one at the end of a life
        self._own: set[str] = set()  # files that this rank has written
        self._is_first, self._folder = False, ""
        self._said: dict[str, Any] | None = None  # once this rank's part is written, or verified
        self.flushed: Id | None = None
        """The newest snapshot that is in files, and verifies there."""

    def begin(self, slot: Slot) -> None:
        """Write a slot, which stays as it is until this has ended."""
        self._begun, self._said = slot.id, None

        def task() -> Iterator[None]:
            self._said = self._written(slot)
            yield

        self._worker.add(task())

    def said(self) -> dict[str, Any] | None:
        """Return what others are to be told: that this rank's part is written, or verifies."""
        return self._said

    def heard(self, told: Mapping[int, Any], world: int) -> None:
        """Go on when all have come as far with one snapshot."""
        there = [one.get("written") for one in told.values()]
        if len(there) < world or any(
            one is None or one["id"] != list(self._begun) for one in there
        ):
            return
        phases = {one["phase"] for one in there}
        if len(phases) > 1:
            return

        begun = self._begun

        def commit() -> Iterator[None]:
            self._said = self._committed(there)
            yield

        def end() -> Iterator[None]:
            self._ended.put((begun, self._settled(there)))
            yield

        self._said = None
        self._worker.add(commit() if "written" in phases else end())

    def abandon(self) -> Id:
        """Forget the flush that is under way: not all who began it are there; return which it was.

        What is written of it has no manifest.
        """
        self._said = None
        return self._begun

    def ended(self) -> Iterator[tuple[Id, str]]:
        """Yield snapshots whose flush has ended, and why it failed; empty: it did not."""
        while not self._ended.empty():
            yield self._ended.get()

    def now(self, slot: Slot | None, ops: Ops) -> None:
        """Write the newest snapshot at once, if any has not; collective, at the end of a job.

        Keepers that are lost are done without, where the code stands their loss: what their files
        would be is known to their group, and is made again by a restore.
        """
        mine, peers = slot.id if slot is not None else None, ops.peers
        damaged = bool(slot is not None and (slot.damaged() or slot.damaged_rows()))
        said = {"newest": mine, "needs": mine and self.flushed != mine, "damaged": damaged}
        told, missing = peers.tell_json(said)
        newest = {tuple(one.get("newest") or ()) for one in told.values()}
        needed = any(one.get("needs") for one in told.values())
        if len(newest) != 1 or not needed or slot is None:
            return
        if any(one.get("damaged") for one in told.values()) and not missing:
            # What cannot be made again in memory may be in files, by the code there.
            for _ in ops.mend(slot):
                pass
        self._wait_for_what_is_under_way()
        told, lost = peers.tell_json({"written": self._written(slot, missing)})
        written = _with_lost([one["written"] for one in told.values()], missing)
        if lost != missing or written is None:
            return
        told, lost = peers.tell_json({"verified": self._committed(written)})
        if lost == missing:
            self._settled([one["verified"] for one in told.values()])

    def _wait_for_what_is_under_way(self) -> None:
        done = threading.Event()

        def task() -> Iterator[None]:
            done.set()
            yield

        self._worker.add(task())
        self._worker.hurry()
        done.wait(_UNDER_WAY_S)
        self._said = None

    def _written(self, slot: Slot, missing: Sequence[int] = ()) -> dict[str, Any]:
        """Write this rank's part, and return what others are to know of it, and of lost ones."""
        assert slot.part is not None
        self._id = slot.id
        head = Head.from_bytes(slot.part.head)
        self._is_first = head.rank == 0
        self._folder = manifest.folder_name(head.step, head.epoch)
        said: dict[str, Any] = {"id": list(slot.id), "phase": "written", "error": ""}
        try:
            tiles = [int(value) for value in slot.hashes]
            files = [flush.write_body(self._place, head, slot.body, tiles)]
            if slot.guarded and len(slot.row_hashes):
                files.append(self._write_parity(slot, head))
                said["group"] = [list(slot.guarded), slot.parity_rows, slot.largest]
        except (HoldfastError, OSError) as error:
            return {**said, "error": str(error)}
        rows = [[file.name, file.nbytes, file.table] for file in files]
        self._own = {file.name for file in files}
        if sum(rank in slot.guarded for rank in missing) <= slot.parity_rows:
            said["lost"] = {r: _lost(*slot.guarded[r]) for r in missing if r in slot.guarded}
        return {**said, "files": rows, "head": _text(slot.part.head)}

    def _write_parity(self, slot: Slot, head: Head) -> File:
        guarded = {
            str(rank): code.guard(part.head, [int(value) for value in hashes])
            for rank, (part, hashes) in slot.guarded.items()
        }
        tiles = [int(value) for value in slot.row_hashes]
        said: dict[str, object] = {code.GUARDED: guarded}
        return flush.write_parity(self._place, head, said, slot.parity_view, tiles)

    def _committed(self, written: list[Any]) -> dict[str, Any]:
        """Make the files of all ranks a state, and read this rank's; return why it is none."""
        said = {"id": list(self._id), "phase": "verified", "error": ""}
        if errors := [str(one["error"]) for one in written if one["error"]]:
            # Nobody writes there any more: what is there would fill the disk.
            with contextlib.suppress(HoldfastError, OSError):
                self._place.remove(self._folder, manifest.NAME)
            return {**said, "error": errors[0]}
        try:
            heads = [Head.from_bytes(base64.b64decode(one["head"])) for one in written]
            heads.sort(key=lambda head: head.rank)
            first = heads[0]
            rows = [row for one in written for row in one["files"]]
            files = tuple(sorted((File(*row) for row in rows), key=lambda file: file.name))
            groups = sorted({json.dumps(one["group"]) for one in written if "group" in one})
            whole = Manifest(
                first.job,
                first.step,
                first.epoch,
                first.world,
                layout_digest(heads),
                files,
                {code.GROUPS: [json.loads(group) for group in groups]} if groups else {},
            )
            flush.commit(self._place, whole)
            return {**said, "folder": whole.folder, "error": self._wrong(whole)}
        except (HoldfastError, OSError) as error:
            return {**said, "error": str(error)}

    def _wrong(self, whole: Manifest) -> str:
        """Read what this rank has written; return what is wrong with it."""
        saved = Saved.open(self._place, whole.folder)
        if saved.manifest != whole:
            return f"{saved.url}: another manifest than was written"
        for file in whole.files:
            if file.name in self._own and (bad := saved.bad_tiles(file)) != []:
                return f"{saved.url}/{file.name}: tiles {bad} are not as they were captured"
        return ""

    def _settled(self, verified: list[Any]) -> str:
        """Remove older states, if all have verified; return why not."""
        if errors := [str(one["error"]) for one in verified if one["error"]]:
            return errors[0]
        self.flushed = self._id
        folder = str(verified[0]["folder"])
        # Of disks that are not shared each removes what is on its own.
        if self._is_first or self.url.startswith(("file:", "/")):
            flush.remove_older(self._place, folder)
        return ""


def _text(head: bytes) -> str:
    return base64.b64encode(head).decode()


def _lost(part: Part, hashes: Hashes) -> dict[str, Any]:
    """Return what the keeper of a guarded part would have said of its file."""
    tiles = [int(value) for value in hashes]
    file = flush.file_of_body(Head.from_bytes(part.head), tiles)
    row = [file.name, file.nbytes, file.table]
    return {"files": [row], "head": _text(part.head), "error": ""}


def _with_lost(written: list[Any], missing: Sequence[int]) -> list[Any] | None:
    """Return what has been written, and what lost ranks would have; None: nobody knows of one."""
    lost = {int(rank): one for each in written for rank, one in each.get("lost", {}).items()}
    if not {*missing} <= lost.keys():
        return None
    return [*written, *(lost[rank] for rank in missing)]
