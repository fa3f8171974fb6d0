"""``holdfast relay``: connects members that cannot call each other."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import threading
import time

from holdfast import _core, _page_options, _token
from holdfast.errors import ConfigError
from holdfast.options import Options

EXAMPLES = """examples:
  holdfast secret run7.secret                                 then copy it to the relay's host
  holdfast relay --listen :29401 --secret-file run7.secret
  holdfast relay --secret-file run7.secret --http 127.0.0.1:9402    # /metrics, for Prometheus
  HOLDFAST_RELAY=relay.example.org:29401 HOLDFAST_TOKEN_FILE=run7.token python train.py

Members need no open port of their own: one that cannot be called keeps a connection to the relay,
and is told there of who wants it. The relay lets in who has the secret, or a token of it that
counts now, and connects members of one run. What they say to each other is encrypted by them, and
the relay has no key to it. Two members that can reach each other directly do so within seconds.
`holdfast coordinator` with a secret is a relay on its own port; this is for where the coordinator
is not, or for the load.
"""
# As often as a coordinator looks at its revocations.
_LOOK_S = 0.25
# Counts are told when they change, and at most so often.
_TELL_S = 2.0
_PORT = 29401


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "--listen",
        default=f":{_PORT}",
        metavar="HOST:PORT",
        help=f"numeric address and port; no host: all interfaces; port 0: any (:{_PORT})",
    )
    parser.add_argument(
        "--secret-file",
        default=None,
        metavar="FILE",
        help="the secret that the members share, or that their tokens are of "
        "(HOLDFAST_SECRET_FILE)",
    )
    parser.add_argument(
        "--audit",
        default=None,
        metavar="FILE",
        help="a line of JSON for each caller that was refused (HOLDFAST_AUDIT_FILE)",
    )
    _page_options.add_arguments(parser)
    parser.set_defaults(run=run)


def _place(text: str) -> tuple[str, int]:
    """Return the address and the port of HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"--listen {text!r}; accepted: HOST:PORT with a numeric address, of IPv6 in brackets, "
            "or none for all interfaces, and a port of 0 to 65535"
        )
    return host, int(port)


class Tally:
    """What a relay has, told when it changes, and at most every two seconds.

    Parameters
    ----------
    who : str
        How its lines begin.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._told = (0, 0, 0)
        self._next = 0.0

    def look(self, counts: tuple[int, int, int, int, int]) -> None:
        """Tell of the counts if they are others.

        Parameters
        ----------
        counts : tuple of int
            Registered members, calls that wait, pairs, refused callers, and bytes passed on.
        """
        registered, _, pairs, refused, passed = counts
        now = time.monotonic()
        if (registered, pairs, refused) == self._told or now < self._next:
            return
        self._told = (registered, pairs, refused)
        self._next = now + _TELL_S
        print(
            f"{self._who}: {registered} registered, {pairs} pairs, {refused} refused, "
            f"{passed / 2**20:.1f} MiB passed on",
            file=sys.stderr,
            flush=True,
        )


def run(arguments: argparse.Namespace) -> int:
    """Run the command until a signal comes.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0.
    """
    given = Options.from_env()
    named = {name: getattr(arguments, name) for name in _page_options.FILES}
    usual = dataclasses.replace(
        given,
        http_insecure=given.http_insecure or arguments.http_insecure,
        **{name: value for name, value in named.items() if value is not None},
    )
    secret = usual.secret_file if arguments.secret_file is None else arguments.secret_file
    audit = usual.audit_file if arguments.audit is None else arguments.audit
    host, port = _place(arguments.listen)
    relay = _core.Relay.create(host, port, secret, audit, _token.revoked(secret), usual.native())
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(f"holdfast relay: listens on port {relay.port}", flush=True)
    if relay.http_address:
        where = relay.http_address
        url = where if where.startswith("https://") else f"http://{where}"
        print(f"holdfast relay: pages at {url}", flush=True)
    revocations = _token.Revocations(secret)
    tally = Tally("holdfast relay")
    while not stop.wait(_LOOK_S):
        revocations.look(relay)
        tally.look(relay.counts())
    relay.close()
    return 0
