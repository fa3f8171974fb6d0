"""The store through which ranks meet without torch: a directory that all of them share."""

from __future__ import annotations

import os
import time
import urllib.parse
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

# Polling starts eager, for ranks that start together, and calms down for those that wait.
_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02


class DirectoryStore:
    """A key-value store of files, with the methods of torch's stores that Holdfast uses.

    Parameters
    ----------
    directory : str or Path
        Made when absent. One directory serves one job: values of an earlier one would be found.

    Raises
    ------
    OSError
        When the directory cannot be made or written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self._directory / urllib.parse.quote(key, safe="")

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key; readers see the whole value or none.

        Parameters
        ----------
        key : str
            Any text.
        value : str or bytes
            Its value; text is stored as UTF-8.
        """
        path = self._path(key)
        draft = path.with_name(f".{uuid.uuid4().hex}")
        draft.write_bytes(value.encode() if isinstance(value, str) else value)
        draft.rename(path)

    def compare_set(self, key: str, expected: str, desired: str | bytes) -> bytes:
        """Set a key that is not set, as one step: of many at the same time one wins.

        Parameters
        ----------
        key : str
            Any text.
        expected : str
            Empty: what torch's stores call a key that is not set.
        desired : str or bytes
            Its value, unless it has one.

        Returns
        -------
        bytes
            The value that it has now.

        Raises
        ------
        ValueError
            When `expected` is something else.
        """
        if expected:
            raise ValueError(f"expected = {expected!r}; accepted: '', for a key that is not set")
        path = self._path(key)
        draft = path.with_name(f".{uuid.uuid4().hex}")
        draft.write_bytes(desired.encode() if isinstance(desired, str) else desired)
        try:
            # A link, unlike a new name, never takes the place of a file.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return self.get(key)

    def get(self, key: str) -> bytes:
        """Return the value of a key.

        Parameters
        ----------
        key : str
            A key that was set.

        Returns
        -------
        bytes
            Its value.

        Raises
        ------
        KeyError
            When it was not set.
        """
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Wait until all keys are set.

        Parameters
        ----------
        keys : sequence of str
            The keys.
        timeout : timedelta
            How long at most.

        Raises
        ------
        TimeoutError
            Naming the first key that never came.
        """
        deadline = time.monotonic() + timeout.total_seconds()
        for key in keys:
            path = self._path(key)
            pause = _FIRST_PAUSE_S
            while not path.exists():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{key} was not set within {timeout.total_seconds()} s")
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set.

        Parameters
        ----------
        keys : sequence of str
            The keys.
        """
        return all(self._path(key).exists() for key in keys)
