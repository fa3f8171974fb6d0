"""What a program of the system's format says it needs: the names of its libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF"
_64_BIT, _LITTLE_ENDIAN = 2, 1
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
# Of a file that is none, or a broken one, no more is read than this.
_MAX_ENTRIES = 4096


@dataclass(frozen=True, slots=True)
class Elf:
    """The dynamic section of a file.

    Parameters
    ----------
    needed : tuple of str
        Names of the libraries that it is loaded with.
    rpath : tuple of str
        Folders that are searched before those of LD_LIBRARY_PATH.
    runpath : tuple of str
        Folders that are searched after those.
    """

    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield type, offset, address and size of each segment."""
    start, size, count = struct.unpack_from("<Q14xHH", data, 32)
    for index in range(min(count, _MAX_ENTRIES)):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, start + index * size
        )
        yield kind, offset, address, length


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="surrogateescape")


def _folders(texts: list[str], file: Path) -> tuple[str, ...]:
    origin = str(file.resolve().parent)
    joined = ":".join(texts).replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
    return tuple(folder for folder in joined.split(":") if folder)


def _parse(data: bytes, file: Path) -> Elf:
    segments = list(_segments(data))
    dynamic = [(offset, size) for kind, offset, _, size in segments if kind == _DYNAMIC]
    if not dynamic:
        return Elf()  # linked statically
    offset, size = dynamic[0]
    entries = []
    for index in range(min(size // 16, _MAX_ENTRIES)):
        tag, value = struct.unpack_from("<QQ", data, offset + index * 16)
        if tag == 0:
            break
        entries.append((tag, value))
    address = next(value for tag, value in entries if tag == _STRINGS)
    start, base = next(
        (offset, begin)
        for kind, offset, begin, length in segments
        if kind == _LOAD and begin <= address < begin + length
    )
    strings = start + address - base

    def texts(wanted: int) -> list[str]:
        return [_text(data, strings + value) for tag, value in entries if tag == wanted]

    return Elf(
        needed=tuple(texts(_NEEDED)),
        rpath=_folders(texts(_RPATH), file),
        runpath=_folders(texts(_RUNPATH), file),
    )


def read(file: Path) -> Elf | None:
    """Read what a file needs.

    Parameters
    ----------
    file : Path
        Any file.

    Returns
    -------
    Elf or None
        None: it is no program, or library, of this kind of machine.
    """
    with file.open("rb") as opened:
        head = opened.read(6)
        if head[:4] != _MAGIC or tuple(head[4:6]) != (_64_BIT, _LITTLE_ENDIAN):
            return None
        data = head + opened.read()
    try:
        return _parse(data, file)
    except (struct.error, OverflowError, ValueError, StopIteration):
        return None
