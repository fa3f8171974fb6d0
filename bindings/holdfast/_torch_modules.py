"""Which native module serves the torch that is here: there is one per minor version of torch.

torch promises no C++ interface beyond a minor version, so that a module fits one alone. The choice
is made by the names of files; only the module that is chosen is ever loaded.

Why: docs/decisions/0134-one-torch-module-per-minor.md
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from datetime import timedelta
from typing import Any, Protocol

import holdfast

OLDEST_TORCH = (2, 11)

# Without dependencies: torch, whose version is the point, stays as it is.
BUILD_FROM_SOURCE = "pip install --force-reinstall --no-deps --no-binary=holdfast holdfast"

_NAME = re.compile(r"_c10d_(\d+)_(\d+)")

Minor = tuple[int, int]


class TorchModule(Protocol):
    """What each of the modules has; :mod:`holdfast.torch` is their only caller."""

    built_for_torch: str
    HoldfastBackend: type[Any]

    def process_ends(self) -> None:
        """Park threads that come out of a wait from now on."""

    def drain_callbacks(self, limit: timedelta) -> bool:
        """Wait until the callbacks of Futures have run."""

    def end_callbacks(self) -> None:
        """Run no callback from now on."""

    def wrap(self, group: object, timeout: timedelta) -> Any:
        """Make a backend over a native group."""

    def tell_wait(self, work: object, whole: bool) -> None:
        """Say whether the caller is blocked while the op runs."""

    def outcome(self, work: object) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]:
        """Return epoch, contributors, missing ranks, and whether the op was repeated."""

    def create(
        self,
        node: object,
        store: Any,
        rank: int,
        size: int,
        group: str,
        timeout: timedelta,
        connect_timeout: timedelta,
        later: bool,
        ranks: list[int],
        parent: object,
    ) -> Any:
        """Make the backend of one process group."""


def minors() -> tuple[Minor, ...]:
    """Return the minor versions of torch that have a module here, oldest first."""
    names = (_NAME.fullmatch(module.name) for module in pkgutil.iter_modules(holdfast.__path__))
    return tuple(sorted((int(name[1]), int(name[2])) for name in names if name))


def minor_of(version: str) -> Minor:
    """Return the minor version of a torch, whatever follows it: 2.14.0a0+git1234 is a 2.14."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def text_of(minor: Minor) -> str:
    """Return a minor version as people write it."""
    return f"{minor[0]}.{minor[1]}"


def refusal(version: str, here: tuple[Minor, ...]) -> str | None:
    """Say why none of the modules serves a torch.

    Parameters
    ----------
    version : str
        That of torch.
    here : tuple of minor versions
        Those that have a module.

    Returns
    -------
    str or None
        What to tell the user; None: there is a module.
    """
    minor = minor_of(version)
    if minor in here:
        return None
    fits = "torch " + ", ".join(text_of(each) for each in here) if here else "no torch at all"
    told = f"this installation of Holdfast fits {fits}, and this is torch {version}"
    if minor < OLDEST_TORCH:
        return f"{told}; Holdfast needs torch {text_of(OLDEST_TORCH)} or newer"
    return f"{told}; building from source makes it fit: `{BUILD_FROM_SOURCE}`"


def load(version: str) -> TorchModule:
    """Load the module for a torch, which is imported already.

    Parameters
    ----------
    version : str
        That of torch.

    Returns
    -------
    TorchModule
        ``holdfast._c10d_2_13`` for 2.13.

    Raises
    ------
    ImportError
        When there is none, or when it does not load beside this torch.
    """
    problem = refusal(version, minors())
    if problem:
        raise ImportError(problem)
    major, minor = minor_of(version)
    try:
        module: Any = importlib.import_module(f"holdfast._c10d_{major}_{minor}")
    except ImportError as error:
        raise ImportError(
            f"Holdfast's module for torch {major}.{minor} does not load beside torch {version} "
            f"({error}); building from source makes it fit: `{BUILD_FROM_SOURCE}`"
        ) from error
    return module  # type: ignore[no-any-return]
