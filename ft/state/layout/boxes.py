"""Boxes of a global tensor, and ranges of their elements in row-major order. Pure integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """A block of a tensor's elements.

    Parameters
    ----------
    offset, size : tuple of int
        Its corner and its extent, one number for each dimension; a scalar's are empty.
    """

    offset: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.size)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, of the box alone in row-major order."""
        return row_major(self.size)

    def moved(self, by: tuple[int, ...]) -> Box:
        """Return the box elsewhere.

        Parameters
        ----------
        by : tuple of int
            What is added to its corner.
        """
        return Box(tuple(o + b for o, b in zip(self.offset, by, strict=True)), self.size)

    def inside(self, other: Box) -> Box:
        """Return the box with its corner counted from another's.

        Parameters
        ----------
        other : Box
            In which it lies.
        """
        return self.moved(tuple(-o for o in other.offset))


def row_major(size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous block, in elements.

    Parameters
    ----------
    size : tuple of int
        Its extent.
    """
    strides = []
    step = 1
    for length in reversed(size):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def intersect(a: Box, b: Box) -> Box | None:
    """Return what two boxes have in common; None: nothing.

    Parameters
    ----------
    a, b : Box
        Of one tensor.
    """
    offset = []
    size = []
    for x, n, y, m in zip(a.offset, a.size, b.offset, b.size, strict=True):
        start = max(x, y)
        length = min(x + n, y + m) - start
        if length <= 0:
            return None
        offset.append(start)
        size.append(length)
    return Box(tuple(offset), tuple(size))


def subtract(box: Box, hole: Box) -> Iterator[Box]:
    """Yield disjoint boxes that are what is left of a box without a part of it.

    Parameters
    ----------
    box, hole : Box
        The second lies in the first.
    """
    offset = [*box.offset]
    size = [*box.size]
    for axis, (start, length) in enumerate(zip(hole.offset, hole.size, strict=True)):
        before = start - offset[axis]
        after = offset[axis] + size[axis] - (start + length)
        for at, extent in ((offset[axis], before), (start + length, after)):
            if extent > 0:
                yield Box(
                    (*offset[:axis], at, *offset[axis + 1 :]),
                    (*size[:axis], extent, *size[axis + 1 :]),
                )
        offset[axis] = start
        size[axis] = length


def of_range(size: tuple[int, ...], first: int, count: int) -> list[tuple[Box, int]]:
    """Return a range of a block's elements as boxes, each contiguous in the block.

    Parameters
    ----------
    size : tuple of int
        Extent of the block.
    first, count : int
        The range, of its elements in row-major order.

    Returns
    -------
    list of tuple of Box and int
        In order: a box within the block, and how many elements of the range lie before it. At most
        two for each dimension.
    """
    if count <= 0:
        return []
    if not size:
        return [(Box((), ()), 0)]
    inner = math.prod(size[1:])
    end = first + count
    row, last = first // inner, (end - 1) // inner
    found: list[tuple[Box, int]] = []

    def partly(index: int, start: int, stop: int) -> None:
        base = index * inner
        for box, before in of_range(size[1:], start - base, stop - start):
            found.append((Box((index, *box.offset), (1, *box.size)), start + before - first))

    if row == last and count < inner:
        partly(row, first, end)
        return found
    if first % inner:
        partly(row, first, (row + 1) * inner)
        row += 1
    whole = end // inner
    if whole > row:
        box = Box((row, *(0 for _ in size[1:])), (whole - row, *size[1:]))
        found.append((box, row * inner - first))
    if end % inner and whole == last:
        partly(whole, whole * inner, end)
    return found
