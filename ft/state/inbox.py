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
from holdfast.ft.state.layout.head import Head, layout_digest

_ALIGNMENT = 64


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
    pieces : bytes
        Rows of what it reads itself: address, bytes, place in the body.
    copied : bytes
        Rows of what is in the inbox: place there plus one, bytes, place in the body.
    inbox : Region, optional
        To be closed when it is sent.
    read : tuple of (str, torch.Tensor, int)
        Name, tensor and version of what the keeper reads itself.
    """

    pieces: bytes
    copied: bytes
    inbox: Region | None
    read: tuple[tuple[str, torch.Tensor, int], ...]

    def moved(self) -> list[str]:
        """Return the names of tensors that were written since, which the keeper may have torn."""
        return sorted({name for name, tensor, version in self.read if tensor._version != version})

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


def pack(capture: Capture, objects_at: int, reads: bool) -> Packed:
    """Copy what the keeper does not read.

    Parameters
    ----------
    capture : Capture
        Of the state.
    objects_at : int
        Where in the body the pickled rest lies.
    reads : bool
        Whether the keeper may read this process's memory, and an optimiser's step waits for it.
    """
    pieces, copied, copies, read = [], [], [], []
    room = len(capture.objects)
    early = set(capture.early)
    for number, source in enumerate(capture.sources):
        entry = source.entry
        if not entry.nbytes:
            continue
        if reads and number not in early and is_direct(source.view):
            address = source.view.data_ptr() + entry.first * entry.item
            pieces.append((address, entry.nbytes, entry.at))
            read.append((entry.name, source.tensor, source.tensor._version))
            continue
        at = -(-room // _ALIGNMENT) * _ALIGNMENT
        copies.append((replace(entry, at=at), source.view))
        room = at + entry.nbytes
        copied.append((at + 1, entry.nbytes, entry.at))
    inbox = None
    if room:
        inbox = Region("inbox", room)
        inbox.view[: len(capture.objects)] = capture.objects
        for entry, view in copies:
            write(entry, view, inbox.view)
        if capture.objects:
            copied.append((1, len(capture.objects), objects_at))
    return Packed(_rows(pieces), _rows(copied), inbox, tuple(read))


def message_of(packed: Packed, head: Head) -> Message:
    """Return what a keeper is told of a snapshot.

    Parameters
    ----------
    packed : Packed
        Its bytes, or where they are.
    head : Head
        Of this rank's image.
    """
    data = head.to_bytes()
    fields = {
        "step": head.step,
        "epoch": head.epoch,
        "nbytes": head.body,
        "layout": layout_digest([head]),
        "process": os.getpid(),
        "head": len(data),
        "pieces": len(packed.pieces),
        "copied": len(packed.copied),
        "inbox": packed.inbox.nbytes if packed.inbox else 0,
    }
    files = (packed.inbox.descriptor,) if packed.inbox else ()
    return Message("take", fields, data + packed.pieces + packed.copied, files)


def _rows(rows: list[tuple[int, int, int]]) -> bytes:
    by_place = sorted(rows, key=lambda row: row[2])
    return np.array(by_place, "<i8").reshape(-1, 3).tobytes()
