"""Which bytes of whose images a rank needs for its part of a state: a pure function of all heads.

Any layout to any other: what a rank wants are boxes of global tensors, what there is are boxes,
too, and what both have in common is a *piece*. Bytes of a piece lie in rows; rows that touch are
one range, and rows of a few bytes are read with what lies between them.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.layout.boxes import Box, intersect, of_range, row_major, subtract
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head

Numbers = npt.NDArray[np.int64]
# A range costs about as much as so many bytes, so gaps between shorter rows are read, too,
# unless that makes the whole longer than so many times what is needed.
_SHORT_ROW = 1024
_MOST_WASTE = 2
# Rows so short are always read with what lies between them.
_TINY_ROW = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rank needs of one tensor.

    Parameters
    ----------
    name, dtype : str
        As in an entry.
    shape : tuple of int
        Of the global tensor.
    boxes : tuple of Box
        Its parts here.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements that lie in one image and go to one box.

    Parameters
    ----------
    wanted, box : int
        Which of the wanted tensors, and which of its boxes.
    region : Box
        The elements, of the global tensor.
    strides : tuple of int
        Elements from one index to the next in what is read.
    at, nbytes : int
        Where it lies in what is read of that image, in bytes.
    """

    wanted: int
    box: int
    region: Box
    strides: tuple[int, ...]
    at: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What is needed of one rank's body; the ranges one after the other are what pieces count in.

    Parameters
    ----------
    rank : int
        Whose body.
    starts, lengths : numpy.ndarray of int64
        The ranges, in bytes.
    pieces : tuple of Piece
        What becomes of them.
    """

    rank: int
    starts: Numbers
    lengths: Numbers
    pieces: tuple[Piece, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all ranges."""
        return int(self.lengths.sum())

    def gather(self, body: memoryview | bytes) -> bytes:
        """Return the ranges of a body that is at hand, one after the other.

        Parameters
        ----------
        body : bytes-like
            The whole body of that rank.
        """
        view = memoryview(body)
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return b"".join(view[start : start + length] for start, length in spans)


@dataclass(frozen=True, slots=True)
class Index:
    """All heads of a snapshot, by tensor.

    Parameters
    ----------
    heads : mapping of int to Head
        By rank.
    entries : mapping of str to list of tuple of int and Entry
        Who has what of a tensor.
    names : tuple of str
        All names, sorted.
    """

    heads: Mapping[int, Head]
    entries: Mapping[str, list[tuple[int, Entry]]]
    names: tuple[str, ...]

    @property
    def world(self) -> int:
        """How many ranks saved it."""
        return next(iter(self.heads.values())).world

    def below(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with a text.

        Parameters
        ----------
        prefix : str
            The text.
        """
        for index in range(bisect.bisect_left(self.names, prefix), len(self.names)):
            if not self.names[index].startswith(prefix):
                return
            yield self.names[index]


def index(heads: Iterable[Head]) -> Index:
    """Collect the heads of all ranks of a snapshot.

    Parameters
    ----------
    heads : iterable of Head
        In any order.

    Raises
    ------
    ProtocolError
        When they are not of one snapshot, one is missing, or two have a tensor in other shapes.
    """
    by_rank: dict[int, Head] = {}
    entries: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for head in heads:
        by_rank[head.rank] = head
        for entry in head.entries:
            entries[entry.name].append((head.rank, entry))
    if not by_rank:
        raise ProtocolError("a snapshot without a head; accepted: one of each rank")
    first = next(iter(by_rank.values()))
    for head in by_rank.values():
        of = [(one.job, one.step, one.epoch, one.world) for one in (first, head)]
        if of[0] != of[1]:
            raise ProtocolError(
                f"heads of ranks {first.rank} and {head.rank} are of two snapshots (job, step, "
                f"epoch, ranks): {of[0]} and {of[1]}"
            )
    missing = [rank for rank in range(first.world) if rank not in by_rank]
    if missing:
        raise ProtocolError(f"heads of ranks {missing[:16]} of {first.world} are missing")
    for name, there in entries.items():
        kinds = {(entry.dtype, entry.shape): rank for rank, entry in there}
        if len(kinds) > 1:
            raise ProtocolError(f"tensor {name!r} differs between images: {kinds}")
    return Index(by_rank, entries, tuple(sorted(entries)))


def plan(saved: Index, wanted: Sequence[Wanted], prefer: int = -1) -> list[Reading]:
    """Return what to read for what is wanted.

    Parameters
    ----------
    saved : Index
        What there is.
    wanted : sequence of Wanted
        What a rank needs.
    prefer : int
        The rank whose image is nearest; what it has is read there.

    Returns
    -------
    list of Reading
        By rank, without those of which nothing is needed.

    Raises
    ------
    ConfigError
        For another model's state, with the first difference.
    ProtocolError
        When images lack elements of a tensor.
    """
    found: dict[int, list[tuple[int, Piece, tuple[Numbers, int]]]] = defaultdict(list)
    for number, want in enumerate(wanted):
        there = saved.entries.get(want.name)
        refuse_other(want, there)
        assert there is not None
        near = sorted(there, key=lambda each: each[0] != prefer)
        for box_number, box in enumerate(want.boxes):
            for rank, piece, rows in _pieces(want, number, box_number, box, near):
                found[rank].append((int(rows[0][0]), piece, rows))
    return [_reading(rank, found[rank]) for rank in sorted(found)]


def refuse_other(want: Wanted, there: Sequence[tuple[int, Entry]] | None) -> None:
    """Refuse a tensor that is another one, or not there.

    Parameters
    ----------
    want : Wanted
        What a rank has.
    there : sequence of tuple of int and Entry, optional
        What was saved under its name.

    Raises
    ------
    ConfigError
        With both.
    """
    hint = "make model and optimizer as they were made when it was saved"
    if not there:
        raise ConfigError(
            f"another model's state: it has no tensor {want.name!r} "
            f"({want.dtype}, {[*want.shape]}); {hint}"
        )
    entry = there[0][1]
    if (entry.dtype, entry.shape) != (want.dtype, want.shape):
        raise ConfigError(
            f"another model's state: tensor {want.name!r} is {entry.dtype}, {[*entry.shape]} there "
            f"and {want.dtype}, {[*want.shape]} here; {hint}"
        )


def _pieces(
    want: Wanted, number: int, box_number: int, box: Box, there: Sequence[tuple[int, Entry]]
) -> Iterator[tuple[int, Piece, tuple[Numbers, int]]]:
    open_boxes = [box] if box.count else []
    for rank, entry in there:
        if not open_boxes:
            return
        if not entry.count or intersect(entry.box, box) is None:
            continue
        # A part of a box is some boxes, each contiguous in the body.
        for part, before in of_range(entry.size, entry.first, entry.count):
            source = part.moved(entry.offset)
            left: list[Box] = []
            for one in open_boxes:
                common = intersect(one, source)
                if common is None:
                    left.append(one)
                    continue
                left.extend(subtract(one, common))
                at = entry.at + before * entry.item
                rows, strides, nbytes = _rows(source, common, at, entry.item)
                yield rank, Piece(number, box_number, common, strides, 0, nbytes), rows
            open_boxes = left
    if open_boxes:
        hole = open_boxes[0]
        raise ProtocolError(
            f"tensor {want.name!r}: no image has the elements at {[*hole.offset]}, "
            f"{[*hole.size]} of them"
        )


def _rows(
    source: Box, region: Box, at: int, item: int
) -> tuple[tuple[Numbers, int], tuple[int, ...], int]:
    """Return the rows of a region of a block (starts, length), their strides, and their bytes."""
    steps = source.strides
    inside = region.inside(source)
    start = at + item * sum(o * s for o, s in zip(inside.offset, steps, strict=True))
    # Trailing dimensions that are taken whole, and the one before them, are one row.
    axis = len(steps)
    row = 1
    while axis > 0:
        axis -= 1
        row *= region.size[axis]
        if region.size[axis] != source.size[axis]:
            break
    outer = [k for k in range(axis) if region.size[k] > 1]
    length = row * item
    hull = item + item * sum((n - 1) * s for n, s in zip(region.size, steps, strict=True))
    needed = region.count * item
    is_short = length < _TINY_ROW or (length < _SHORT_ROW and hull <= _MOST_WASTE * needed)
    if outer and is_short:
        return (np.array([start], np.int64), hull), steps, hull
    starts = np.array([start], np.int64)
    for k in outer:
        along = np.arange(region.size[k], dtype=np.int64) * (steps[k] * item)
        starts = (starts[:, None] + along[None, :]).reshape(-1)
    return (starts, length), row_major(region.size), needed


def _reading(rank: int, found: list[tuple[int, Piece, tuple[Numbers, int]]]) -> Reading:
    found.sort(key=lambda each: each[0])
    pieces = []
    at = 0
    for _, piece, _ in found:
        pieces.append(Piece(piece.wanted, piece.box, piece.region, piece.strides, at, piece.nbytes))
        at += piece.nbytes
    starts = np.concatenate([rows[0] for _, _, rows in found])
    lengths = np.concatenate(
        [np.full(len(rows[0]), rows[1], dtype=np.int64) for _, _, rows in found]
    )
    # A range begins where the one before has not ended.
    begins = np.concatenate([[True], starts[1:] != starts[:-1] + lengths[:-1]])
    first = np.flatnonzero(begins)
    return Reading(rank, starts[first], np.add.reduceat(lengths, first), tuple(pieces))
