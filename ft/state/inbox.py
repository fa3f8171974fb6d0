"""What a trainer copies for its keeper itself: what forward changes, and what cannot be read there.

Parameters and optimisers' state stay as they are until the optimiser's step, so the keeper reads
them meanwhile. Buffers, the pickled rest, and tensors that do not lie in one piece of this host's
memory are copied before `take` returns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from holdfast.ft.state.keeper.memory import Region
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.capture import Capture, is_direct, write
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head

_ALIGNMENT = 64
_ROW = 24
# What is pickled grows a little now and then.
_SLACK = 64 << 10


def optimizers(value: Any) -> list[torch.optim.Optimizer]:
    """Return all optimisers of a state."""
    if isinstance(value, torch.optim.Optimizer):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    inner = value if isinstance(value, list | tuple) else ()
    return [found for each in inner for found in optimizers(each)]


@dataclass(frozen=True, slots=True)
class Packed:
    """A snapshot as a keeper takes it.

    Parameters
    ----------
    lengths : tuple of int
        Bytes of the tables, which lie in the inbox one after the other: the head; rows of what the
        keeper reads itself (address, bytes, place in the body); rows of what is in the inbox (place
        there plus one, bytes, place in the body).
    tables : int
        Where in the inbox the first one begins.
    digest : str
        Of the layout.
    inbox : Region
        Stays open for the next snapshot.
    names : tuple of str
        Of tensors that the keeper reads itself.
    tensors : tuple of torch.Tensor
        They.
    versions : list of int
        What they had when the snapshot was taken.
    """

    lengths: tuple[int, int, int]
    tables: int
    digest: str
    inbox: Region
    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    versions: list[int]

    def moved(self) -> list[str]:
        """Return the names of tensors that were written since, which the keeper may have torn."""
        now = [tensor._version for tensor in self.tensors]
        if now == self.versions:
            return []
        both = zip(self.names, self.versions, now, strict=True)
        return sorted({name for name, old, new in both if old != new})

    def problem(self) -> str:
        """Say which tensors were written since; empty: none."""
        moved = self.moved()
        if not moved:
            return ""
        return (
            f"tensor {moved[0]!r} was written between take() and the optimizer's step, "
            f"{len(moved)} in all; leave parameters alone until then, or put what forward "
            "changes into buffers"
        )


class _Plan:
    """Who copies what of a capture, and of all that are renewed of it.

    Parameters
    ----------
    capture : Capture
        Of a state.
    reads : bool
        As for `Inbox.pack`.
    """

    def __init__(self, capture: Capture, reads: bool) -> None:
        pieces, copied, read = [], [], []
        self.copies: list[tuple[int, Entry]] = []
        """Which sources, and where their bytes go in the inbox."""
        self.room = 0
        early = set(capture.early)
        for number, source in enumerate(capture.sources):
            entry, view = source.entry, source.view
            if not entry.nbytes:
                continue
            # A tensor of inference mode has no counter that would tell.
            if reads and number not in early and is_direct(view) and not view.is_inference():
                pieces.append((view.data_ptr() + entry.first * entry.item, entry.nbytes, entry.at))
                read.append((entry.name, source.tensor))
                continue
            at = -(-self.room // _ALIGNMENT) * _ALIGNMENT
            self.copies.append((number, replace(entry, at=at)))
            self.room = at + entry.nbytes
            copied.append((at + 1, entry.nbytes, entry.at))
        self.pieces, self.copied = _rows(pieces), _rows(copied)
        self.names = tuple(name for name, _ in read)
        self.tensors = tuple(tensor for _, tensor in read)


class Inbox:
    """Memory of a trainer that its keeper reads a snapshot's head and copies from.

    One region serves all snapshots, each when the keeper is through with the one before.
    """

    def __init__(self) -> None:
        self._region: Region | None = None
        self.is_read = True
        """Whether the keeper has what was there."""

    def forget(self) -> None:
        """Give the memory back; a keeper that has it keeps it."""
        region, self._region = self._region, None
        if region is not None:
            region.close()

    def pack(self, capture: Capture, head: Head, reads: bool) -> Packed:
        """Copy what the keeper does not read.

        Parameters
        ----------
        capture : Capture
            Of the state.
        head : Head
            What the capture says of itself.
        reads : bool
            Whether the keeper may read this process's memory, and an optimiser's step waits for it.
        """
        key = f"plan {reads}"
        plan: _Plan | None = capture.kept.get(key)
        if plan is None:
            plan = capture.kept[key] = _Plan(capture, reads)
        versions = [tensor._version for tensor in plan.tensors]
        data, digest = capture.told(head)
        objects, copied = capture.objects, plan.copied
        tables = [data, plan.pieces, copied]
        if objects:
            # They lie behind all tensors.
            begin = plan.room + len(data) + len(plan.pieces) + len(copied) + _ROW
            tables[2] = copied + _rows([(begin + 1, len(objects), head.objects[0])])
        whole = b"".join([*tables, objects])
        region = self._room(plan.room + len(whole))
        for number, entry in plan.copies:
            write(entry, capture.sources[number].view, region.view)
        region.view[plan.room : plan.room + len(whole)] = whole
        head_bytes, pieces, rows = map(len, tables)
        told = (head_bytes, pieces, rows)
        return Packed(told, plan.room, digest, region, plan.names, plan.tensors, versions)

    def _room(self, nbytes: int) -> Region:
        if self._region is None or not self.is_read or self._region.nbytes < nbytes:
            self.forget()
            self._region = Region("inbox", nbytes + nbytes // 8 + _SLACK)
        self.is_read = False
        return self._region


def message_of(packed: Packed, head: Head) -> Message:
    """Return what a keeper is told of a snapshot.

    Parameters
    ----------
    packed : Packed
        Where its bytes are.
    head : Head
        Of this rank's image.
    """
    names = ("head", "pieces", "copied")
    fields = {
        "step": head.step,
        "epoch": head.epoch,
        "nbytes": head.body,
        "layout": packed.digest,
        "process": os.getpid(),
        **dict(zip(names, packed.lengths, strict=True)),
        "tables": packed.tables,
        "inbox": packed.inbox.nbytes,
    }
    return Message("take", fields, b"", (packed.inbox.descriptor,))


def _rows(rows: list[tuple[int, int, int]]) -> bytes:
    by_place = sorted(rows, key=lambda row: row[2])
    return np.array(by_place, "<i8").reshape(-1, 3).tobytes()
