"""Memory of a keeper: sealed, reserved before it is needed, and shared by descriptor.

A region is a memfd whose size is sealed, so that no end that maps it can be hurt by the other's
making it smaller; its pages are taken when it is made, so that a snapshot never fails for want of
memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from pathlib import Path

from holdfast.errors import ConfigError, SystemFailure

# Left to all others on this machine, of what is available.
_SPARE = 64 << 20
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Region:
    """Memory that can be handed to another process of this user.

    Parameters
    ----------
    name : str
        What it is of, for ``/proc``.
    nbytes : int
        1 and more.

    Raises
    ------
    ConfigError
        There is not so much memory, with bytes.
    SystemFailure
        The system gives none for another reason.
    """

    def __init__(self, name: str, nbytes: int) -> None:
        refuse_beyond(nbytes, f"memory of {name}")
        self.nbytes = nbytes
        self.descriptor = os.memfd_create(f"holdfast:{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, nbytes)
            os.posix_fallocate(self.descriptor, 0, nbytes)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
            self._map = mmap.mmap(self.descriptor, nbytes)
        except OSError as error:
            os.close(self.descriptor)
            raise SystemFailure(f"memory of {name}: {nbytes} bytes: {error}") from None
        self.view = memoryview(self._map)

    def close(self) -> None:
        """Give it back; who has mapped it keeps it until it lets go."""
        self.view.release()
        # A slice that somebody still has keeps the mapping until it goes.
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self.descriptor)


def mapped(descriptor: int, nbytes: int) -> mmap.mmap:
    """Map what another process has sent, to read; the descriptor is closed.

    Parameters
    ----------
    descriptor : int
        Of a region whose size is sealed.
    nbytes : int
        That are said to be there.

    Raises
    ------
    SystemFailure
        It is smaller, or its size is not sealed.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        size = os.fstat(descriptor).st_size
        if seals & _SEALS != _SEALS or size < nbytes:
            raise SystemFailure(
                f"memory that was sent has {size} bytes, seals {seals:#x}; accepted: {nbytes} "
                f"bytes and more, of sealed size"
            )
        return mmap.mmap(descriptor, max(1, nbytes), prot=mmap.PROT_READ)
    except OSError as error:
        raise SystemFailure(f"memory that was sent cannot be mapped: {error}") from None
    finally:
        os.close(descriptor)


def available() -> int:
    """Return how many bytes this process may still take, by the machine and its control group."""
    found = [_of_machine(), _of_control_group()]
    return max(0, min(value for value in found if value is not None) - _SPARE)


def refuse_beyond(nbytes: int, what: str) -> None:
    """Refuse more memory than there is.

    Parameters
    ----------
    nbytes : int
        In all.
    what : str
        For the error.

    Raises
    ------
    ConfigError
        With the bytes that there are.
    """
    there = available()
    if nbytes > there:
        raise ConfigError(
            f"{what}: {nbytes} bytes, and {there} can be had on this host; accepted: what fits; "
            "take fewer ranks to a host, a code with less parity, or part of the state"
        )


def _of_machine() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62


def _of_control_group() -> int | None:
    try:
        place = Path("/proc/self/cgroup").read_text().strip().splitlines()[-1].split(":")[2]
        folder = Path("/sys/fs/cgroup") / place.lstrip("/")
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        return None if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError, IndexError):
        return None  # no control group of version 2
