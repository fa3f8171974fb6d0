"""From tensors to the body of an image, and who moved meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.errors import ConfigError
from holdfast.ft.state.layout.boxes import of_range
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.flatten import dumped
from holdfast.ft.state.layout.head import Head, layout_digest, place, rows_of
from holdfast.ft.state.layout.local import Local, Replica, describe, parts_of
from holdfast.ft.state.layout.steady import Steady


@dataclass(frozen=True, slots=True)
class Source:
    """Where the bytes of an entry come from.

    Parameters
    ----------
    entry : Entry
        Which.
    view : torch.Tensor
        Its box of the local tensor.
    tensor : torch.Tensor
        The local tensor, whose version counts.
    """

    entry: Entry
    view: torch.Tensor
    tensor: torch.Tensor


class Capture:
    """One rank's state at one step boundary, to be copied.

    Parameters
    ----------
    state : mapping of str to object
        As for `flatten`.
    rank, world : int
        This rank, and how many there are.
    replicas : mapping of str to Replica, optional
        As for `describe`.

    Raises
    ------
    ConfigError
        For a tensor that cannot be saved, or what cannot be pickled.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        rank: int,
        world: int,
        replicas: Mapping[str, Replica] | None = None,
    ) -> None:
        self._rank, self._world, self._replicas = rank, world, replicas
        self._steady = Steady(state)
        flat = self._steady.flat
        locals_ = describe(flat, rank, world, replicas)
        self.objects = dumped(flat.rest)
        self.sources, self._at, self.body_bytes = sources_of(locals_, len(self.objects))
        #: Which sources forward and backward may write: they are copied before anything else.
        self.early = [k for k, s in enumerate(self.sources) if s.entry.name not in flat.steady]
        #: What is made once for this and all that are renewed of it, whose entries are the same,
        #: and whose tensors but for the early ones.
        self.kept: dict[str, Any] = {}
        self._versions = self.versions()

    def renewed(self, state: Mapping[str, Any]) -> Capture:
        """Return the capture of a later step; quick where models and optimisers are as they were.

        Parameters
        ----------
        state : mapping of str to object
            As this one was made of.

        Returns
        -------
        Capture
            The same as one that is made anew.
        """
        flat = self._steady.again(state)
        if flat is not None:
            locals_ = describe(flat, self._rank, self._world, self._replicas)
            found = _replaced(self.sources, self.early, locals_)
            if found is not None:
                new = copy.copy(self)
                new.sources = found
                new.objects = dumped(flat.rest)
                new.body_bytes = self._at + len(new.objects)
                new._versions = new.versions()
                return new
        return Capture(state, self._rank, self._world, self._replicas)

    def head(self, job: str, step: int, epoch: int) -> Head:
        """Return what is said of the bytes.

        Parameters
        ----------
        job : str
            Whose they are.
        step, epoch : int
            When they were.
        """
        entries = self.kept.get("entries")
        if entries is None:
            entries = self.kept["entries"] = tuple(source.entry for source in self.sources)
        rest = (self._at, len(self.objects))
        return Head(job, step, epoch, self._rank, self._world, entries, rest, self.body_bytes)

    def told(self, head: Head) -> tuple[bytes, str]:
        """Return this capture's head as bytes, and the digest of its layout.

        Parameters
        ----------
        head : Head
            What `head` returned.
        """
        if "rows" not in self.kept:
            self.kept["rows"] = rows_of(head.entries)
            self.kept["digest"] = layout_digest([head], self.kept["rows"])
        return head.to_bytes(self.kept["rows"]), self.kept["digest"]

    # ---- who moved -------------------------------------------------------------------------------

    def versions(self) -> list[int]:
        """Return the version counters of all sources' tensors; -1 for one without a counter."""
        try:
            return [source.tensor._version for source in self.sources]
        except RuntimeError:  # one of inference mode is among them
            return [_version(source.tensor) for source in self.sources]

    def moved(self, before: Sequence[int] | None = None) -> list[str]:
        """Return names of tensors that were written since.

        Parameters
        ----------
        before : sequence of int, optional
            What `versions` returned. Default: when this was made.
        """
        then = self._versions if before is None else before
        pairs = zip(self.sources, then, self.versions(), strict=True)
        names = {source.entry.name for source, old, new in pairs if old != new}
        return sorted(names)

    # ---- the bytes -------------------------------------------------------------------------------

    def pointers(self) -> list[tuple[int, int, int]]:
        """Return (address, bytes, place in the body) of what is contiguous in this host's memory.

        Whoever reads these must end before the tensors are written or freed; `copy` with `rest`
        does all else.
        """
        found = []
        for source in self.sources:
            if is_direct(source.view) and source.entry.nbytes:
                address = source.view.data_ptr() + source.entry.first * source.entry.item
                found.append((address, source.entry.nbytes, source.entry.at))
        return found

    @property
    def rest(self) -> list[int]:
        """Which sources `pointers` leaves out."""
        return [k for k, source in enumerate(self.sources) if not is_direct(source.view)]

    def copy(self, body: memoryview, only: Iterable[int] | None = None) -> None:
        """Copy tensors, and the pickled rest, into a body.

        Parameters
        ----------
        body : memoryview
            Writable, of at least `body_bytes`.
        only : iterable of int, optional
            Which sources; default: all. The pickled rest is always copied.

        Raises
        ------
        ConfigError
            For a body that is too short, or cannot be written.
        """
        if body.readonly or body.nbytes < self.body_bytes:
            raise ConfigError(
                f"body of {body.nbytes} bytes, read-only: {body.readonly}; accepted: writable, at "
                f"least {self.body_bytes}"
            )
        whole = body.cast("B") if body.format != "B" else body
        whole[self._at : self._at + len(self.objects)] = self.objects
        chosen = range(len(self.sources)) if only is None else only
        for k in chosen:
            write(self.sources[k].entry, self.sources[k].view, whole)


def sources_of(locals_: Sequence[Local], rest: int) -> tuple[list[Source], int, int]:
    """Place the parts of local tensors in a body.

    Parameters
    ----------
    locals_ : sequence of Local
        They.
    rest : int
        Bytes of the pickled rest.

    Returns
    -------
    tuple
        The sources, where the rest lies, and the bytes of the body.
    """
    chosen = [(local, *part) for local in locals_ for part in parts_of(local)]
    sizes = [count * local.tensor.element_size() for local, _, _, count in chosen]
    places, end = place([*sizes, rest])
    sources = []
    for (local, number, first, count), at in zip(chosen, places[:-1], strict=True):
        box = local.boxes[number]
        entry = Entry(local.name, local.dtype, local.shape, box.offset, box.size, first, count, at)
        sources.append(Source(entry, local.views[number], local.tensor))
    return sources, places[-1], end


def _replaced(
    sources: Sequence[Source], early: Sequence[int], locals_: Sequence[Local]
) -> list[Source] | None:
    """Return sources with other tensors in places that stay; None: other tensors, or elsewhere."""
    new = {
        (local.name, local.boxes[number], first, count): (local, number)
        for local in locals_
        for number, first, count in parts_of(local)
    }
    found, names = [*sources], {name for name, *_ in new}
    for k in early:
        entry = sources[k].entry
        local, number = new.pop((entry.name, entry.box, entry.first, entry.count), (None, 0))
        if local is not None:
            if (local.dtype, local.shape) != (entry.dtype, entry.shape):
                return None
            found[k] = Source(entry, local.views[number], local.tensor)
        elif entry.name in names:
            return None
    return None if new else found


def is_direct(view: torch.Tensor) -> bool:
    """Return whether a tensor's bytes lie in this host's memory as a body has them.

    Parameters
    ----------
    view : torch.Tensor
        Plain.
    """
    return (
        view.device.type == "cpu"
        and view.is_contiguous()
        and not view.is_conj()
        and not view.is_neg()
    )


def write(entry: Entry, view: torch.Tensor, body: memoryview) -> None:
    """Copy one entry into a body.

    Parameters
    ----------
    entry : Entry
        What and where.
    view : torch.Tensor
        Its box, of any strides, on any device.
    body : memoryview of bytes
        The whole body.
    """
    if not entry.nbytes:
        return
    span = body[entry.at : entry.at + entry.nbytes]
    flat = torch.frombuffer(span, dtype=torch.uint8).view(view.dtype)
    if view.is_contiguous():
        flat.copy_(view.view(-1)[entry.first : entry.first + entry.count])
        return
    for box, before in of_range(entry.size, entry.first, entry.count):
        part = view
        for axis, (start, length) in enumerate(zip(box.offset, box.size, strict=True)):
            part = part.narrow(axis, start, length)
        flat[before : before + box.count].view(box.size).copy_(part)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else int(tensor._version)
