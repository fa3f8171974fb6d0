"""Where files may be: local folders by ourselves, everything else by fsspec.

A place has few verbs, so that an object store, which knows neither rename nor folders, has them
all: an object is there as a whole or not at all, and the manifest is the last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.errors import ConfigError, ProtocolError, SystemFailure
from holdfast.ft.state.files import direct

Parts = Iterable[memoryview | bytes]


class Place(ABC):
    """A folder that has a run's states, each in a folder of its own.

    Parameters
    ----------
    url : str
        As the user gave it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of all folders; an empty list where nothing is."""

    @abstractmethod
    def files(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; an empty list where it is not there."""

    @abstractmethod
    def write(self, folder: str, name: str, parts: Parts) -> int:
        """Write a file that is there as a whole or not at all; return its bytes."""

    @abstractmethod
    def read(self, folder: str, name: str, at: int = 0, nbytes: int | None = None) -> bytes:
        """Return a range of a file, shorter where it ends; ProtocolError where there is none."""

    @abstractmethod
    def remove(self, folder: str, first: str) -> None:
        """Remove a folder, and one of its files before the others."""


def place(url: str) -> Place:
    """Return the place that a URL names.

    Parameters
    ----------
    url : str
        ``file:///folder``, a local path, or a URL of a scheme that fsspec knows.

    Raises
    ------
    ConfigError
        For a scheme that is unknown, or whose package is not installed.
    """
    parsed = urlsplit(url)
    if parsed.scheme == "file":
        if parsed.netloc not in ("", "localhost") or not parsed.path.startswith("/"):
            raise ConfigError(f"{url!r}: accepted: file:///folder, with an absolute path")
        return Local(url, Path(unquote(parsed.path)))
    if "://" not in url:
        if not url:
            raise ConfigError("an empty URL; accepted: file:///folder, a path, or SCHEME://...")
        return Local(url, Path(url))
    return Remote(url, parsed.scheme)


def absolute(url: str) -> str:
    """Return a URL that names the same place in any folder, for a process that runs elsewhere.

    Parameters
    ----------
    url : str
        As `place` takes it; empty: nowhere.

    Raises
    ------
    ConfigError
        For a scheme that is unknown, or whose package is not installed.
    """
    if not url:
        return url
    where = place(url)
    if isinstance(where, Local) and "://" not in url:
        return str(where.path.absolute())
    return url


class Local(Place):
    """A folder of this host, or of a file system that it mounts.

    Parameters
    ----------
    url : str
        As the user gave it.
    path : pathlib.Path
        The folder.
    """

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(url)
        self.path = path

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        if not self.path.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir())

    def files(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        inside = self.path / folder
        return sorted(entry.name for entry in os.scandir(inside)) if inside.is_dir() else []

    def write(self, folder: str, name: str, parts: Parts) -> int:
        """Write a file under another name, have it on the device, and rename it."""
        inside = self.path / folder
        fresh = inside / f".{name}.{os.getpid()}"
        try:
            if not inside.is_dir():
                inside.mkdir(parents=True, exist_ok=True)
                direct.sync_folder(self.path)
            size = direct.write(fresh, parts)
            fresh.replace(inside / name)
            direct.sync_folder(inside)
        except OSError as error:
            # Else a disk that is full would stay so.
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise SystemFailure(
                f"{inside / name}: {error.strerror}; free space there, or flush elsewhere"
            ) from None
        return size

    def read(self, folder: str, name: str, at: int = 0, nbytes: int | None = None) -> bytes:
        """Return a range of a file."""
        try:
            with (self.path / folder / name).open("rb") as file:
                file.seek(at)
                return file.read() if nbytes is None else file.read(nbytes)
        except FileNotFoundError:
            raise ProtocolError(f"{self.path / folder / name}: is not there") from None
        except OSError as error:
            raise SystemFailure(f"{self.path / folder / name}: {error.strerror}") from None

    def remove(self, folder: str, first: str) -> None:
        """Remove a folder, and one of its files before the others."""
        inside = self.path / folder
        with contextlib.suppress(FileNotFoundError):
            (inside / first).unlink()
            direct.sync_folder(inside)
        shutil.rmtree(inside, ignore_errors=True)


class Remote(Place):
    """A folder of a file system that fsspec has.

    Parameters
    ----------
    url : str
        As the user gave it.
    scheme : str
        Its part before the colon.

    Raises
    ------
    ConfigError
        When fsspec, or its package for the scheme, is not there.
    """

    def __init__(self, url: str, scheme: str) -> None:
        super().__init__(url)
        try:
            import fsspec
        except ImportError:
            raise ConfigError(
                f"{url!r}: {scheme}:// needs fsspec, which is not installed; accepted: file://; "
                "pip install fsspec"
            ) from None
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except ValueError:
            known = ", ".join(sorted(fsspec.available_protocols()))
            raise ConfigError(
                f"{url!r}: {scheme}:// is unknown; accepted: file:// and what fsspec has: {known}"
            ) from None
        except ImportError as error:
            raise ConfigError(f"{url!r}: {scheme}:// needs a package: {error}") from None

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        self._files.invalidate_cache()
        try:
            found = self._files.ls(self._root, detail=True)
        except FileNotFoundError:
            return []
        return sorted(
            each["name"].rstrip("/").rsplit("/", 1)[-1]
            for each in found
            if each["type"] == "directory"
        )

    def files(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder."""
        try:
            found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)

    def write(self, folder: str, name: str, parts: Parts) -> int:
        """Write an object; it is there once it is closed."""
        self._files.makedirs(f"{self._root}/{folder}", exist_ok=True)
        size = 0
        with self._files.open(f"{self._root}/{folder}/{name}", "wb") as file:
            for part in parts:
                size += memoryview(part).nbytes
                file.write(part)
        return size

    def read(self, folder: str, name: str, at: int = 0, nbytes: int | None = None) -> bytes:
        """Return a range of an object."""
        end = None if nbytes is None else at + nbytes
        try:
            found: Any = self._files.cat_file(f"{self._root}/{folder}/{name}", at, end)
        except FileNotFoundError:
            raise ProtocolError(f"{self.url}/{folder}/{name}: is not there") from None
        return bytes(found)

    def remove(self, folder: str, first: str) -> None:
        """Remove a folder, and one of its objects before the others."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{folder}/{first}")
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(f"{self._root}/{folder}", recursive=True)
