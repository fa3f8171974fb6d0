"""Local files written past the page cache: what is cached stays, and dirty pages are few.

Where a file system takes O_DIRECT, whole blocks go to the device from aligned memory; elsewhere
each stretch is synced and then dropped from the cache.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

# A multiple of every device's block; file systems that take O_DIRECT take it.
BLOCK = 4096
# What is written at a time: long enough for any disk, short beside a host's memory.
_STRETCH = 8 << 20
# Bytes that may be dirty where the cache cannot be avoided.
_DIRTY = 64 << 20


def write(path: Path, parts: Iterable[memoryview | bytes]) -> int:
    """Write a file and have it on the device.

    Parameters
    ----------
    path : pathlib.Path
        Made, or written anew.
    parts : iterable of bytes-like
        What is in it, one after the other.

    Returns
    -------
    int
        Its bytes.

    Raises
    ------
    OSError
        When the disk is full, for one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_DIRECT, 0o644)
        direct = True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.open(path, flags, 0o644)
        direct = False
    try:
        size = _write_all(descriptor, parts, direct)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return size


def sync_folder(path: Path) -> None:
    """Have a folder's names on the device.

    Parameters
    ----------
    path : pathlib.Path
        The folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, parts: Iterable[memoryview | bytes], direct: bool) -> int:
    """Collect parts in an aligned buffer and write whole blocks of it."""
    buffer = mmap.mmap(-1, _STRETCH)
    try:
        return _write_by(memoryview(buffer), descriptor, parts, direct)
    finally:
        # An error on its way out has slices of it: then it goes with them.
        with contextlib.suppress(BufferError):
            buffer.close()


def _write_by(
    room: memoryview, descriptor: int, parts: Iterable[memoryview | bytes], direct: bool
) -> int:
    with room:
        at, held, dirty = 0, 0, 0
        for part in parts:
            view = memoryview(part).cast("B")
            done = 0
            while done < view.nbytes:
                whole = _straight(view[done:], held) if direct else 0
                if whole:
                    _put(descriptor, view[done : done + whole], at)
                    at, done = at + whole, done + whole
                    continue
                count = min(_STRETCH - held, view.nbytes - done)
                room[held : held + count] = view[done : done + count]
                held, done = held + count, done + count
                if held == _STRETCH:
                    _put(descriptor, room, at)
                    at, held, dirty = at + held, 0, dirty + held
                if dirty >= _DIRTY and not direct:
                    os.fdatasync(descriptor)
                    os.posix_fadvise(descriptor, 0, at, os.POSIX_FADV_DONTNEED)
                    dirty = 0
        # What follows the file's end is cut off later.
        padded = -(-held // BLOCK) * BLOCK if direct else held
        room[held:padded] = bytes(padded - held)
        _put(descriptor, room[:padded], at)
        return at + held


def _straight(view: memoryview, held: int) -> int:
    """Return how many bytes can go to the device from where they lie."""
    if held or view.nbytes < BLOCK:
        return 0
    if np.frombuffer(view, np.uint8).ctypes.data % BLOCK:
        return 0
    return min(view.nbytes, _STRETCH) // BLOCK * BLOCK


def _put(descriptor: int, view: memoryview, at: int) -> None:
    done = 0
    while done < view.nbytes:
        done += os.pwrite(descriptor, view[done:], at + done)
