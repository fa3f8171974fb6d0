"""``holdfast token``: join tokens of a run, made from its secret, listed and revoked."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from holdfast import _core
from holdfast.errors import ConfigError
from holdfast.options import Options

EXAMPLES = """examples:
  holdfast secret run7.secret
  holdfast coordinator --secret-file run7.secret
  export HOLDFAST_SECRET_FILE=run7.secret
  holdfast token new --run run7 --expires 12h --uses 4 > alice.token
  holdfast token list
  holdfast token revoke alice.token

  HOLDFAST_TOKEN_FILE=alice.token python peer.py      on alice's machine, which calls
                                                      holdfast.join("holdfast://HOST:29400/run7")
A token is made of the secret, without the network; a coordinator needs the secret to know it. What
was made and what is revoked is written beside the secret, in FILE.tokens and FILE.revoked; the
coordinator looks at FILE.revoked all the time, so revoke where the coordinator has its secret, or
copy the file there. A process is let in while its token lasts, also when it comes back after its
connection broke: let a token last longer than the job.
"""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 3650 * 86400
_ROLES = ("member", "observer", "admin")
_SERIAL_DIGITS = 32


@dataclasses.dataclass(frozen=True)
class _Made:
    """A line of FILE.tokens: a token without its key."""

    serial: str
    run: str
    role: str
    expires: int
    uses: int
    made: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    actions = parser.add_subparsers(dest="action", required=True)
    new = actions.add_parser("new", help="make a token and print it")
    new.add_argument(
        "--run",
        dest="run_name",
        required=True,
        metavar="NAME",
        help="the run that it lets into: the NAME of holdfast://HOST:PORT/NAME",
    )
    new.add_argument(
        "--role", choices=_ROLES, default="member", help="what its holder may do (member)"
    )
    new.add_argument(
        "--expires",
        default="12h",
        metavar="TIME",
        help="how long it lets in: a number with s, m, h or d (12h)",
    )
    new.add_argument(
        "--uses",
        type=int,
        default=0,
        metavar="N",
        help="how many processes; 0: as many as one token can let in, 4096 (0)",
    )
    listing = actions.add_parser("list", help="show the tokens that were made here")
    listing.add_argument("--json", action="store_true", help="for programs")
    revoke = actions.add_parser("revoke", help="let nobody in by a token any more")
    revoke.add_argument(
        "tokens",
        nargs="+",
        metavar="TOKEN",
        help="serials, as `holdfast token list` shows them, or files with tokens",
    )
    for action in (new, listing, revoke):
        action.add_argument(
            "--secret-file",
            default=None,
            metavar="FILE",
            help="the secret, as `holdfast secret` makes it (HOLDFAST_SECRET_FILE)",
        )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0.
    """
    given = arguments.secret_file
    files = Options.from_env().secret_file if given is None else given
    if not files:
        raise ConfigError(
            "no secret; accepted: --secret-file FILE or HOLDFAST_SECRET_FILE, with a file that "
            "`holdfast secret FILE` has made"
        )
    actions = {"new": _new, "list": _list, "revoke": _revoke}
    actions[arguments.action](files, arguments)
    return 0


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        raise ConfigError(
            f"--expires {text!r}; accepted: a number with s, m, h or d, up to 3650d, such as 12h"
        )
    return seconds


def _beside(files: str, ending: str) -> list[Path]:
    return [Path(file + ending) for file in files.split(",")]


def _append(path: Path, line: str) -> None:
    """Add a line to a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def _new(files: str, arguments: argparse.Namespace) -> None:
    if arguments.uses < 0:
        raise ConfigError(f"--uses {arguments.uses}; accepted: 0 (any) and more")
    now = int(time.time())
    expires = now + _seconds(arguments.expires)
    text, serial = _core.mint_token(
        files, arguments.run_name, arguments.role, expires, arguments.uses
    )
    made = _Made(serial, arguments.run_name, arguments.role, expires, arguments.uses, now)
    _append(_beside(files, ".tokens")[0], json.dumps(dataclasses.asdict(made)))
    print(text)
    print(
        f"token {serial}: lets a {made.role} into the run {made.run} until {_day(expires)}; "
        "it is as secret as a password",
        file=sys.stderr,
    )


def _day(instant: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(instant))


def _made(files: str) -> list[_Made]:
    made = []
    for path in _beside(files, ".tokens"):
        if not path.exists():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                made.append(_Made(**json.loads(line)))
            except (ValueError, TypeError):
                raise ConfigError(
                    f"{path}, line {number}: this is no line of `holdfast token new`"
                ) from None
    return made


def _list(files: str, arguments: argparse.Namespace) -> None:
    gone = set(revoked(files))
    now = time.time()

    def state(token: _Made) -> str:
        if token.serial in gone:
            return "revoked"
        return "expired" if now > token.expires else "valid"

    made = _made(files)
    if arguments.json:
        print(json.dumps([{**dataclasses.asdict(t), "state": state(t)} for t in made], indent=2))
        return
    rows = [("SERIAL", "RUN", "ROLE", "USES", "UNTIL", "STATE")]
    rows += [
        (t.serial, t.run, t.role, str(t.uses or "any"), _day(t.expires), state(t)) for t in made
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )


def serial_of(text: str) -> str:
    """Find the serial that a text is, or that the token in a file has.

    Parameters
    ----------
    text : str
        A serial, or a file's path.

    Returns
    -------
    str
        The serial.

    Raises
    ------
    ConfigError
        When it is neither.
    """
    path = Path(text)
    if path.is_file():
        return _core.token_serial(path.read_text())
    if text.startswith("hf1-"):
        raise ConfigError(
            "a token itself is no argument, for others can see arguments; accepted: its serial, or "
            "the file that has it"
        )
    if not re.fullmatch(rf"[0-9a-f]{{{_SERIAL_DIGITS}}}", text):
        raise ConfigError(
            f"{text!r} is no file, and no serial; accepted: a file with a token, or a serial of "
            f"{_SERIAL_DIGITS} hexadecimal digits, as `holdfast token list` shows it"
        )
    return text


def _revoke(files: str, arguments: argparse.Namespace) -> None:
    made = {token.serial: token for token in _made(files)}
    gone = set(revoked(files))
    for serial in [serial_of(text) for text in arguments.tokens]:
        if serial not in made:
            print(f"token {serial}: was not made here; revoked all the same", file=sys.stderr)
        if serial in gone:
            print(f"token {serial}: was revoked before")
            continue
        _append(_beside(files, ".revoked")[0], serial)
        gone.add(serial)
        print(f"token {serial}: revoked")


def revoked(files: str) -> list[str]:
    """Return the serials of the tokens that are revoked.

    Parameters
    ----------
    files : str
        The secret's file, or two with a comma between them; empty: there is no secret.

    Returns
    -------
    list of str
        Serials; empty where none was ever revoked.

    Raises
    ------
    ConfigError
        When a file of revocations has something else in it.
    """
    if not files:
        return []
    return [serial for path in _beside(files, ".revoked") for serial in _serials_in(path)]


def _serials_in(path: Path) -> Iterable[str]:
    try:
        lines = path.read_text().split()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    for line in lines:
        if not re.fullmatch(rf"[0-9a-f]{{{_SERIAL_DIGITS}}}", line):
            raise ConfigError(
                f"{path}: {line[:40]!r}; accepted: serials of tokens, one a line, as `holdfast "
                "token revoke` writes them"
            )
    return lines


class Revocations:
    """What the files beside a coordinator's secret say from one look to the next.

    Parameters
    ----------
    files : str
        As in :func:`revoked`.
    """

    def __init__(self, files: str) -> None:
        self._files = files
        self._known: list[str] = []
        self._told = ""

    def look(self, coordinator: _core.Coordinator | _core.Relay) -> None:
        """Have the coordinator revoke what is there; an unreadable file changes nothing.

        Parameters
        ----------
        coordinator : _core.Coordinator or _core.Relay
            With the secret.
        """
        try:
            now = revoked(self._files)
        except ConfigError as error:
            if str(error) != self._told:
                print(f"holdfast coordinator: {error}", file=sys.stderr, flush=True)
            self._told = str(error)
            return
        self._told = ""
        if now == self._known:
            return
        for serial in sorted(set(now) - set(self._known)):
            print(f"token {serial}: is revoked", file=sys.stderr, flush=True)
        coordinator.revoke(now)
        self._known = now
