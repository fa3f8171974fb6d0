"""Options: one value object with defaults, from arguments or from the environment."""

from __future__ import annotations

import difflib
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields

from holdfast import _core
from holdfast.errors import ConfigError

_PREFIX = "HOLDFAST_"
# Variables with this prefix that are no options: how ranks find each other, how torch is found.
_OTHER = frozenset({"HOLDFAST_STORE", "HOLDFAST_TORCH_DIR"})


@dataclass(frozen=True, slots=True)
class Options:
    """How a process takes part in its groups. Bad values are refused when it is made.

    Parameters
    ----------
    transports : tuple of str
        Transports that may be used: ``"shm"`` inside a host, ``"tcp"`` everywhere.
        ``HOLDFAST_TRANSPORTS``, comma separated.
    timeout : float
        Time limit of an op in seconds, from start to end. ``HOLDFAST_TIMEOUT``.
    connect_timeout : float
        Time limit in seconds for all members of a new group to appear.
        ``HOLDFAST_CONNECT_TIMEOUT``.
    address : str
        Numeric address to listen on; empty: all interfaces. ``HOLDFAST_ADDRESS``.
    port : int
        TCP port to listen on; 0 lets the system choose. ``HOLDFAST_PORT``.
    host_id : str
        Who counts as "the same host"; empty: found out. ``HOLDFAST_HOST_ID``.
    algorithm : str
        Algorithm to use wherever it serves; empty: the cost model chooses.
        ``HOLDFAST_ALGORITHM``.

    Raises
    ------
    ConfigError
        Naming the option, its value, and what is accepted.
    """

    transports: tuple[str, ...] = ("shm", "tcp")
    timeout: float = 1800.0
    connect_timeout: float = 300.0
    address: str = ""
    port: int = 0
    host_id: str = ""
    algorithm: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        self.native()

    def native(self) -> _core.Options:
        """Return the validated native options.

        Returns
        -------
        _core.Options
            The same values for the runtime.

        Raises
        ------
        ConfigError
            Naming the option, its value, and what is accepted.
        """
        if isinstance(self.port, bool) or not 0 <= self.port <= 65535:
            raise ConfigError(f"option port = {self.port!r}; accepted: 0 to 65535")
        if isinstance(self.transports, str):
            raise ConfigError(
                f"option transports = {self.transports!r}; accepted: a tuple of names, "
                'e.g. ("shm", "tcp")'
            )
        for name in ("timeout", "connect_timeout"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise ConfigError(f"option {name} = {seconds!r}; accepted: a number of seconds")
            if not math.isfinite(seconds):
                raise ConfigError(f"option {name} = {seconds!r}; accepted: a finite number")
        options = _core.Options()
        options.transports = list(self.transports)
        options.timeout_s = self.timeout
        options.connect_timeout_s = self.connect_timeout
        options.address = self.address
        options.port = self.port
        options.host_id = self.host_id
        options.algorithm = self.algorithm
        _core.validate(options)
        return options

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Options:
        """Read the options from ``HOLDFAST_*`` variables; the rest keeps its default.

        Parameters
        ----------
        env : mapping, optional
            The variables; default: this process's environment.

        Returns
        -------
        Options
            Validated options.

        Raises
        ------
        ConfigError
            Naming the variable, its value, and what is accepted.
        """
        env = os.environ if env is None else env
        values: dict[str, object] = {}
        for field in fields(cls):
            variable = _PREFIX + field.name.upper()
            text = env.get(variable)
            if text is not None and text != "":
                values[field.name] = _parse(variable, field.name, text)
        _warn_of_unknown(env)
        try:
            return cls(**values)  # type: ignore[arg-type]
        except ConfigError as error:
            names = ", ".join(_PREFIX + name.upper() for name in values)
            raise ConfigError(f"{error} (set by the environment: {names})") from None


def _parse(variable: str, name: str, text: str) -> object:
    try:
        if name == "transports":
            return tuple(part.strip() for part in text.split(","))
        if name in ("timeout", "connect_timeout"):
            return float(text)
        if name == "port":
            return int(text)
    except ValueError:
        accepted = "a whole number, 0 to 65535" if name == "port" else "a number of seconds"
        raise ConfigError(f"{variable} = {text!r}; accepted: {accepted}") from None
    return text


def _warn_of_unknown(env: Mapping[str, str]) -> None:
    known = [_PREFIX + field.name.upper() for field in fields(Options)]
    for variable in env:
        if not variable.startswith(_PREFIX) or variable in known or variable in _OTHER:
            continue
        close = difflib.get_close_matches(variable, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"
        warnings.warn(f"{variable} is no option of Holdfast{hint}", stacklevel=3)
