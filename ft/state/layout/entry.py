"""One tensor's bytes in an image: of which part of which global tensor, and where they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.dtypes import ITEM_BYTES

# What a cache line and every dtype's alignment divide, and more than any vector instruction asks.
ALIGNMENT = 64
# No tensor has more elements or bytes, so that sums of a few sizes fit in 64 bits.
MAX_SIZE = 1 << 60
MAX_DIMENSIONS = 64
MAX_NAME = 4096
FIELDS = ("name", "dtype", "shape", "offset", "size", "first", "count", "at")


@dataclass(frozen=True, slots=True)
class Entry:
    """What an image has of one tensor.

    Parameters
    ----------
    name : str
        Path of the tensor in the state.
    dtype : str
        Torch's name without ``torch.``.
    shape : tuple of int
        Of the global tensor.
    offset, size : tuple of int
        The box of the global tensor.
    first, count : int
        Which elements of the box, in row-major order, these bytes are: a replica has a part.
    at : int
        Where in the body they lie, in bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    size: tuple[int, ...]
    first: int
    count: int
    at: int

    @property
    def box(self) -> Box:
        """The box of the global tensor."""
        return Box(self.offset, self.size)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Length in the body."""
        return self.count * self.item

    @property
    def is_whole(self) -> bool:
        """Whether it has all elements of the global tensor."""
        return self.size == self.shape and self.count == math.prod(self.shape)

    def to_list(self) -> list[object]:
        """Return the fields in their order, for JSON."""
        shape, offset, size = ([*each] for each in (self.shape, self.offset, self.size))
        return [self.name, self.dtype, shape, offset, size, self.first, self.count, self.at]


def aligned(position: int) -> int:
    """Return the next place where bytes of a tensor may begin.

    Parameters
    ----------
    position : int
        In bytes.
    """
    return -(-position // ALIGNMENT) * ALIGNMENT


def parse(row: object, index: int) -> Entry:
    """Make an entry of what JSON had, which need not be one.

    Parameters
    ----------
    row : object
        A list of the fields, or anything.
    index : int
        Which entry of its head, for messages.

    Raises
    ------
    ProtocolError
        With the field that is wrong.
    """
    if not isinstance(row, list) or len(row) != len(FIELDS):
        raise ProtocolError(f"entry {index} is no list of {', '.join(FIELDS)}")
    name, dtype, shape, offset, size, first, count, at = row
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise ProtocolError(f"entry {index}: name is no text of 1 to {MAX_NAME} characters")
    where = f"entry {index} ({name[:80]!r})"
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ProtocolError(f"{where}: name has half a character") from None
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise ProtocolError(
            f"{where}: dtype {str(dtype)[:40]!r} is unknown; accepted: {', '.join(ITEM_BYTES)}"
        )
    entry = Entry(
        name,
        dtype,
        _sizes(shape, f"{where}: shape"),
        _sizes(offset, f"{where}: offset"),
        _sizes(size, f"{where}: size"),
        number(first, f"{where}: first"),
        number(count, f"{where}: count"),
        number(at, f"{where}: at"),
    )
    _check(entry, where)
    return entry


def _check(entry: Entry, where: str) -> None:
    if not len(entry.shape) == len(entry.offset) == len(entry.size):
        raise ProtocolError(f"{where}: shape, offset and size have different lengths")
    for whole, start, length in zip(entry.shape, entry.offset, entry.size, strict=True):
        if start + length > whole:
            raise ProtocolError(
                f"{where}: box {entry.offset} + {entry.size} is not in shape {entry.shape}"
            )
    for sizes in (entry.shape, entry.size):
        if math.prod(max(1, length) for length in sizes) * entry.item > MAX_SIZE:
            raise ProtocolError(f"{where}: {sizes} is more than {MAX_SIZE} bytes")
    if entry.first + entry.count > entry.box.count:
        raise ProtocolError(
            f"{where}: elements {entry.first} + {entry.count} of a box of {entry.box.count}"
        )
    if entry.at % ALIGNMENT:
        raise ProtocolError(f"{where}: at {entry.at} is no multiple of {ALIGNMENT}")


def number(value: object, what: str, most: int = MAX_SIZE) -> int:
    """Return a whole number of JSON that is not negative and not too large.

    Parameters
    ----------
    value : object
        Anything.
    what : str
        For the message.
    most : int
        The largest one.

    Raises
    ------
    ProtocolError
        For anything else.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"{what}: {str(value)[:40]!r} is no whole number of 0 to {most}")
    return value


def _sizes(value: object, what: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MAX_DIMENSIONS:
        raise ProtocolError(f"{what} is no list of at most {MAX_DIMENSIONS} numbers")
    return tuple(number(each, what) for each in value)


def refuse_name(name: str) -> None:
    """Refuse a name that no image can have.

    Parameters
    ----------
    name : str
        Of a tensor.

    Raises
    ------
    ConfigError
        With what is accepted.
    """
    if len(name) > MAX_NAME:
        raise ConfigError(
            f"state {name[:80]!r}...: {len(name)} characters; accepted: names of at most {MAX_NAME}"
        )
