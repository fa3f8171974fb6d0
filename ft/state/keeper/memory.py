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
import socket
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


def shared_by() -> str:
    """Return what is the same for processes that take from the same memory."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/cgroup").readlink())
        return f"{kernel} {namespace} {_GROUPS.read_text()}"
    except OSError:
        return socket.gethostname()


_GROUPS, _MOUNTS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def _of_control_group(groups: Path = _GROUPS, mounts: Path = _MOUNTS) -> int | None:
    """Return what the control group leaves, and those that it is in; None: they set no limit."""
    found = []
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        # Of version 2 all controllers are in one tree; of version 1 memory has its own.
        names = ("memory.max", "memory.current") if not controllers else _OF_VERSION_1
        folder = mounts / controllers
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts) + 1):
            found.append(_left(folder.joinpath(*parts[:count]), *names))
    return min((value for value in found if value is not None), default=None)


_OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _left(folder: Path, limit_name: str, used_name: str) -> int | None:
    try:
        limit = (folder / limit_name).read_text().strip()
        if not limit.isdigit():
            return None  # "max"
        used = int((folder / used_name).read_text())
        # What is cached of files goes when memory is wanted; memfds are not among it.
        rows = (folder / "memory.stat").read_text().splitlines()
        stat = dict(row.split(" ", 1) for row in rows if " " in row)
        cached = sum(int(stat.get(name, 0)) for name in ("inactive_file", "active_file"))
        return max(0, int(limit) - max(0, used - cached))
    except (OSError, ValueError):
        return None  # there is no such group, or not for memory
