"""``holdfast coordinator``: decides the views of the jobs whose members call it."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import signal
import socket
import sys
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

from holdfast import _core, _one_host, _page_options, _relay, _standby, _token
from holdfast.errors import ConfigError, HoldfastError
from holdfast.options import Options

EXAMPLES = """examples:
  holdfast coordinator --address 127.0.0.1 --min-peers 2              jobs of this host
  HOLDFAST_COORDINATOR=127.0.0.1:29400/run7 holdfast run -n 4 train.py
  holdfast.join("holdfast://127.0.0.1:29400/run8")                    an elastic group, in Python
  holdfast.join("holdfast://a:29400,b:29400/run8")       where it is at one of several

  holdfast secret run7.secret                                         then copy it to all hosts
  holdfast coordinator --secret-file run7.secret --record /var/lib/holdfast/jobs
  holdfast coordinator --insecure --record tcp://store-host:29500     a TCPStore of torch's
  holdfast coordinator --secret-file run7.secret --etcd http://e1:2379,http://e2:2379,http://e3:2379
  holdfast coordinator --secret-file run7.secret --tls-cert c.pem --tls-key c.key --tls-ca ca.pem \\
      --tls-crl ca.crl --tls-roles roles                               members with certificates

It can be killed and started again at any time: the members tell it what they know. Who decided last
they cannot tell. With --record FILE it knows that itself; keep the file on a disk that outlives it,
and let one coordinator at a time have it. A store at tcp://HOST:PORT is a record, too, that several
coordinators may share; nothing is decided while it does not answer. Without a record it lets go on
who is left of a group only where they are half of it at least, or the others' end is proven; for a
view that an earlier life has decided, more than half. The members that are called back within
--grace come before newcomers, and members that cannot be reached keep the group's name for --keep
seconds.
Without --secret-file there is no authentication and no encryption: trusted networks only. With it
members come in by the secret, by tokens (`holdfast token`), or by X.509 certificates, with --tls-*:
lines ROLE RUN SUBJECT of the file --tls-roles, such as "member run7 CN=alice,O=Example", say whose.
All --tls-* files are looked at again when they change: who is revoked is out within a second.
"""
# A token or certificate that is revoked lets nobody stay for longer than a second.
_LOOK_S = 0.25
# A signal is seen between two looks at the lease.
_LEASE_LOOK_S = 0.2
_TTL_S = 5
_LONGEST_TTL_S = 600
_KEEP_S = 7200.0
_STORE_S = 10.0
_LONGEST_S = 30 * 24 * 3600.0
_World = tuple[str, int, list[int], int, int, str]


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        type=float,
        default=None,
        metavar="S",
        help="without a record: seconds after the start before a group begins, for members of one "
        "that lives call first (10 heartbeats)",
    )
    parser.add_argument(
        "--keep",
        type=float,
        default=_KEEP_S,
        metavar="S",
        help="seconds that a group keeps its name when no member can be reached, and none is known "
        f"to have ended ({_KEEP_S:.0f})",
    )
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        metavar="RUN=members:N,groups:M",
        help="how many processes and groups a run may have here, or one of the two; RUN * is every "
        "run without a quota of its own; may be given again",
    )


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record",
        default="",
        metavar="RECORD",
        help="where decisions are kept: a file, made if there is none, or tcp://HOST:PORT, where "
        "torch's TCPStore listens (default: nowhere)",
    )
    parser.add_argument(
        "--etcd",
        default="",
        metavar="URLS",
        help="http:// or https://HOST:PORT of each member of an etcd, with commas between them: it "
        "elects one of the coordinators that are started with it, and keeps the decisions",
    )
    parser.add_argument(
        "--ttl",
        type=int,
        metavar="S",
        help=f"with --etcd: seconds after which a silent leader is replaced ({_TTL_S})",
    )
    for name, help_text in (
        ("ca", "with https://: the authorities that etcd's certificate is of, in PEM"),
        ("cert", "with https://: a certificate, in PEM, where etcd asks its clients for one"),
        ("key", "its key, in a file of mode 0600"),
    ):
        parser.add_argument(f"--etcd-{name}", default="", metavar="FILE", help=help_text)


def _add_certificates(parser: argparse.ArgumentParser) -> None:
    for name, help_text in (
        ("cert", "certificate, in PEM, by which members with certificates know the coordinator"),
        ("key", "its key, in a file of mode 0600"),
        ("ca", "authorities that members' certificates are of, in PEM"),
        (
            "crl",
            "their revocation lists, in PEM; nobody new comes in by a certificate while it "
            "cannot be used",
        ),
        ("roles", "who may do what by a certificate: lines ROLE RUN SUBJECT; * is any run"),
    ):
        parser.add_argument(
            f"--tls-{name}",
            default=None,
            metavar="FILE",
            help=f"{help_text} (HOLDFAST_TLS_{name.upper()})",
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "--port", type=int, default=29400, metavar="P", help="to listen on; 0: any (29400)"
    )
    parser.add_argument(
        "--address", default="", metavar="A", help="of one interface (default: all of them)"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen on more than loopback without a secret: whoever reaches the port is let in",
    )
    parser.add_argument(
        "--min-peers",
        type=int,
        default=1,
        metavar="N",
        help="an elastic group begins with so many, unless its first member asks for more (1)",
    )
    _page_options.add_arguments(parser)
    parser.add_argument(
        "--secret-file",
        default=None,
        metavar="FILE",
        help="the secret that its members share with it, as `holdfast secret` makes it "
        "(HOLDFAST_SECRET_FILE)",
    )
    _add_certificates(parser)
    _add_record(parser)
    _add_limits(parser)
    parser.set_defaults(run=run)


def _store_at(url: str) -> Any:
    """Connect to a store of torch's."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or not port or parts.path or parts.query or parts.username:
        raise ConfigError(f"--record {url!r}; accepted: a file, or tcp://HOST:PORT")
    try:
        from torch.distributed import TCPStore
    except ImportError:
        raise ConfigError(
            f"--record {url!r} is a store of torch's, and torch is not installed; accepted "
            "without it: a file"
        ) from None
    limit = datetime.timedelta(seconds=_STORE_S)
    try:
        # torch asks again and again, and writes a trace each time.
        socket.create_connection((parts.hostname, port), _STORE_S).close()
        return TCPStore(parts.hostname, port, None, False, timeout=limit, wait_for_workers=False)
    except (OSError, RuntimeError) as error:  # torch's are no OSError
        raise HoldfastError(f"--record {url!r}: no store answers there: {error}") from None


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
    _check(arguments)
    options = _options(arguments)
    stop = threading.Event()
    if arguments.etcd:
        ttl = _TTL_S if arguments.ttl is None else arguments.ttl
        who = f"{options.address or socket.gethostname()}:{options.port}"
        lease = _core.EtcdLease.create(
            arguments.etcd, ttl, who, arguments.etcd_ca, arguments.etcd_cert, arguments.etcd_key
        )
        _stop_by_signal(stop)
        return _standby.run(lease, stop, lambda own: _lead(arguments, options, stop, own))
    in_store = arguments.record.startswith("tcp://")
    coordinator = _core.Coordinator.create(
        options.native(),
        arguments.min_peers,
        record="" if in_store else arguments.record,
        store=_store_at(arguments.record) if in_store else None,
        grace=arguments.grace,
        keep=arguments.keep,
        revoked=_token.revoked(options.secret_file),
        quotas=arguments.quota,
    )
    _stop_by_signal(stop)
    _serve(coordinator, options, lambda: stop.wait(_LOOK_S))
    return 0


def _stop_by_signal(stop: threading.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def _check(arguments: argparse.Namespace) -> None:
    if not 0 <= arguments.port <= 65535:
        raise ConfigError(f"--port {arguments.port}; accepted: 0 to 65535")
    if arguments.min_peers < 1:
        raise ConfigError(f"--min-peers {arguments.min_peers}; accepted: 1 and more")
    for name, value in (("grace", arguments.grace), ("keep", arguments.keep)):
        if value is not None and not 0 <= value <= _LONGEST_S:
            raise ConfigError(f"--{name} {value}; accepted: 0 to {_LONGEST_S:.0f} seconds")
    if arguments.ttl is not None and not 2 <= arguments.ttl <= _LONGEST_TTL_S:
        raise ConfigError(f"--ttl {arguments.ttl}; accepted: 2 to {_LONGEST_TTL_S} seconds")
    if arguments.ttl is not None and not arguments.etcd:
        raise ConfigError(f"--ttl {arguments.ttl} is of a lease of etcd's; accepted: with --etcd")
    for name in ("etcd_ca", "etcd_cert", "etcd_key"):
        if getattr(arguments, name) and not arguments.etcd:
            option = "--" + name.replace("_", "-")
            raise ConfigError(
                f"{option} {getattr(arguments, name)}; accepted: with --etcd https://"
            )
    if arguments.etcd and arguments.record:
        raise ConfigError(
            f"--record {arguments.record!r} with --etcd: etcd is the record of the decisions, and "
            "another one could contradict it; accepted: one of the two"
        )
    if arguments.etcd and arguments.port == 0:
        raise ConfigError(
            "--port 0 with --etcd: members could not know where the next leader listens; "
            "accepted: 1 to 65535, the port that members are told"
        )


# What an argument of the same name sets in place of a variable.
_FILES = (*_page_options.FILES, "secret_file")
_TLS_FILES = ("tls_cert", "tls_key", "tls_ca", "tls_crl", "tls_roles")


def _options(arguments: argparse.Namespace) -> Options:
    given = Options.from_env()
    named = {name: getattr(arguments, name) for name in (*_FILES, *_TLS_FILES)}
    options = dataclasses.replace(
        given,
        address=arguments.address,
        port=arguments.port,
        coordinator="",
        transports=("tcp",),
        http_insecure=given.http_insecure or arguments.http_insecure,
        flight_dir="",
        **{name: value for name, value in named.items() if value is not None},
    )
    if not options.secret_file and any(getattr(options, name) for name in _TLS_FILES):
        raise ConfigError(
            "--tls-cert without --secret-file: the secret signs what members show each other; "
            "accepted: both, and `holdfast secret FILE` makes one"
        )
    if not (options.secret_file or arguments.insecure or _one_host.is_loopback(options.address)):
        raise ConfigError(
            f"--address {options.address or '(all interfaces)'} without a secret: whoever reaches "
            "the port would be let in. Accepted: --secret-file FILE, which `holdfast secret FILE` "
            "makes; --address 127.0.0.1, for jobs of this host; or --insecure, on a network that "
            "only you reach"
        )
    return options


def _lead(
    arguments: argparse.Namespace,
    options: Options,
    stop: threading.Event,
    lease: _core.EtcdLease,
) -> None:
    """Coordinate until the lease is lost."""
    coordinator = _core.Coordinator.create(
        options.native(),
        arguments.min_peers,
        keep=arguments.keep,
        revoked=_token.revoked(options.secret_file),
        quotas=arguments.quota,
        lease=lease,
    )
    _serve(coordinator, options, lambda: lease.wait_lost(_LEASE_LOOK_S) or stop.is_set())


def _serve(coordinator: _core.Coordinator, options: Options, ends: Callable[[], bool]) -> None:
    """Say what changes, until `ends`, which waits a moment, says so."""
    print(f"holdfast coordinator: listens on port {coordinator.port}", flush=True)
    if coordinator.http_address:
        where = coordinator.http_address
        url = where if where.startswith("https://") else f"http://{where}"
        print(f"holdfast coordinator: pages at {url}", flush=True)
    known: dict[str, _World] = {}
    revocations = _token.Revocations(options.secret_file)
    relay = _relay.Tally("holdfast coordinator: relay")
    while not ends():
        revocations.look(coordinator)
        relay.look(coordinator.relay_counts())
        for news in coordinator.look_at_certificates():
            print(f"holdfast coordinator: {news}", file=sys.stderr, flush=True)
        now = {world[0]: world for world in coordinator.worlds()}
        for name, world in now.items():
            if known.get(name) != world:
                print(_line(world), file=sys.stderr, flush=True)
        for name in known.keys() - now.keys():
            print(f"{name}: has ended", file=sys.stderr, flush=True)
        known = now
    coordinator.close()


def _line(world: _World) -> str:
    name, epoch, present, ranks, waiting, blocked = world
    text = f"{name}: epoch {epoch}, {len(present)} of {ranks} ranks"
    if waiting:
        text += f", {waiting} waiting"
    return text + (f"; {blocked}" if blocked else "")
