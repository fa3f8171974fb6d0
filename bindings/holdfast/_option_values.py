"""What an option's value may be, by its type alone: from a variable's text, or from an argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.errors import ConfigError

LONGEST_S = 365 * 24 * 3600.0


class Row(NamedTuple):
    """An option in the native table, which is where its facts stand."""

    name: str
    variable: str
    type: str
    usual: str  # the default, as the variable would have it
    words: list[str]
    or_zero: bool


def parse(row: Row, text: str) -> object:
    """Return the value that the text stands for, or the text where it stands for none.

    Parameters
    ----------
    row : Row
        Of the option.
    text : str
        As its variable has it.

    Returns
    -------
    object
        To be checked.
    """
    try:
        if row.type == "names":
            return tuple(part.strip() for part in text.split(","))
        if row.type == "flag":
            return {"1": True, "0": False}.get(text, text)
        if row.type == "seconds":
            return float(text)
        if row.type in ("port", "bytes"):
            return int(text)
    except ValueError:
        pass  # the option's own check refuses the text, and says what it accepts
    return text


def _refuse(name: str, value: object, accepted: str) -> ConfigError:
    return ConfigError(f"option {name} = {value!r}; accepted: {accepted}")


def _names(name: str, value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, tuple | list) else ()
    if not names or not all(isinstance(part, str) for part in names):
        raise _refuse(name, value, 'a tuple of names, e.g. ("shm", "tcp")')
    return names


def _seconds(name: str, value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    number = float(value) if known else math.nan  # type: ignore[arg-type]
    if not 0 < number <= LONGEST_S:
        raise _refuse(name, value, "a number of seconds, more than 0, at most one year")
    return number


def _port(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise _refuse(name, value, "a whole number, 0 to 65535")
    return value


def _bytes(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise _refuse(name, value, "a whole number of bytes, at least 0")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, value, "True or False (1 or 0)")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refuse(name, value, "a string")
    return value


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "names": _names,
    "seconds": _seconds,
    "port": _port,
    "bytes": _bytes,
    "flag": _flag,
    "text": _text,
}


def checked(row: Row, value: object) -> object:
    """Return the value as one of its type, which is all that is looked at here.

    Parameters
    ----------
    row : Row
        Of the option.
    value : object
        As it was given.

    Returns
    -------
    object
        The value.

    Raises
    ------
    ConfigError
        Naming the option, its value, and what is accepted.
    """
    if row.words:
        if value not in row.words:
            raise _refuse(row.name, value, " or ".join(f'"{word}"' for word in row.words))
        return value
    if row.or_zero and value == 0 and not isinstance(value, bool):
        return 0.0
    return _CHECKS[row.type](row.name, value)
