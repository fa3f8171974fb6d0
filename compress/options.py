"""Checks of what users pass: a bad value is refused by name, with what is accepted."""

from __future__ import annotations

from holdfast.errors import ConfigError


def require(fits: bool, name: str, value: object, accepted: str) -> None:
    """Refuse a value that does not fit.

    Parameters
    ----------
    fits : bool
        Whether it does.
    name : str
        The argument's.
    value : object
        What was passed.
    accepted : str
        What would fit.

    Raises
    ------
    ConfigError
        A ValueError that names all three.
    """
    if not fits:
        raise ConfigError(f"{name} = {value!r}; accepted: {accepted}")
