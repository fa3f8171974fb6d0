"""Groups of the ranks of an mpi4py communicator, met through that communicator alone.

Rank 0 keeps a small store while the ranks meet, and tells the others by a broadcast where it is and
which word opens it. Nothing else of MPI is used, so that it may be any MPI.
"""

from __future__ import annotations

import secrets
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from holdfast import _process
from holdfast.comm.group import Group
from holdfast.errors import ConfigError, Timeout
from holdfast.options import Options

# What one side may say at once: more than any rank's card.
_LARGEST = 1 << 20
_HEADER = struct.Struct("!cII")
_LENGTH = struct.Struct("!I")
_TOKEN_BYTES = 16
_SECONDS = struct.Struct("!d")
# The server answers a wait after this long, even if the key is not set.
_LONGEST_WAIT_S = 10.0


def from_mpi(comm: Any, options: Options | None = None, name: str = "mpi") -> Group:
    """Make a group of the ranks of an mpi4py communicator; its ranks have the same numbers.

    Collective over the communicator, of which a duplicate is used meanwhile, so that the program's
    own messages may be under way. Afterwards the group needs MPI no more, but the processes do: MPI
    still ends the job when one of them dies, unless it was told otherwise.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Of any MPI: the world, a split, a duplicate.
    options : Options, optional
        Default: from the environment.
    name : str
        Name of the group, for errors and records.

    Returns
    -------
    Group
        All ranks are connected.

    Raises
    ------
    ConfigError
        For what is no intra-communicator.
    Timeout
        Naming the ranks that never came.
    """
    _check(comm)
    options = Options.from_env() if options is None else options
    private = comm.Dup()
    rank, size = private.Get_rank(), private.Get_size()
    server = _Server() if rank == 0 else None
    store: _RemoteStore | None = None
    try:
        where = private.bcast(server.where() if server is not None else None, root=0)
        store = _RemoteStore(where, options.connect_timeout)
        node = _process.node(options)
        native = node.join(store, name, rank, size, options.connect_timeout, options.timeout)
        # Nobody reads the store any more once all have come.
        private.Barrier()
        group = Group(native, node)
        group._measure_first(options.measure)
        return group
    finally:
        if store is not None:
            store.close()
        if server is not None:
            server.close()
        private.Free()


def _check(comm: Any) -> None:
    needed = ("Dup", "Get_rank", "Get_size", "bcast", "Is_inter")
    if not all(hasattr(comm, method) for method in needed):
        raise ConfigError(
            f"comm = {comm!r}; accepted: an intra-communicator of mpi4py, such as MPI.COMM_WORLD"
        )
    if not comm:
        raise ConfigError("comm = MPI.COMM_NULL; accepted: a communicator that this rank is in")
    if comm.Is_inter():
        raise ConfigError("comm is an inter-communicator; accepted: one of a single group")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where rank 0's store is: its host's name and addresses, the port, and the word."""

    host: str
    addresses: list[str]
    port: int
    token: bytes


class _Server:
    """The store at rank 0: keys and values, for whoever knows the word."""

    def __init__(self) -> None:
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self._values: dict[bytes, bytes] = {}
        self._changed = threading.Condition()
        outer = self

        class Visit(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 1024

        self._server = Server(("", 0), Visit)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def where(self) -> _Place:
        """Say where it is."""
        port = self._server.server_address[1]
        return _Place(socket.gethostname(), _own_addresses(), port, self.token)

    def close(self) -> None:
        """End the service."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def _serve(self, peer: socket.socket) -> None:
        peer.settimeout(60)
        try:
            if not secrets.compare_digest(_read(peer, _TOKEN_BYTES), self.token):
                return
            while True:
                verb, key, value = _read_message(peer)
                found = self._do(verb, key, value)
                _write_message(peer, b"N" if found is None else b"Y", b"", found or b"")
        except (OSError, EOFError, ConfigError):
            return

    def _do(self, verb: bytes, key: bytes, value: bytes) -> bytes | None:
        """Do what was asked for, and return the key's value then."""
        with self._changed:
            if verb == b"S":
                self._values[key] = value
            elif verb == b"C":
                expected, desired = _split(value)
                if self._values.get(key, b"") == expected:
                    self._values[key] = desired
            elif verb == b"W":
                limit = min(_SECONDS.unpack(value)[0], _LONGEST_WAIT_S)
                self._changed.wait_for(lambda: key in self._values, timeout=limit)
            self._changed.notify_all()
            return self._values.get(key)


def _own_addresses() -> list[str]:
    """This host's address as others may see it, if its name says one."""
    try:
        infos = socket.getaddrinfo(socket.gethostname(), None, family=socket.AF_INET)
    except OSError:
        return []
    return [cast(str, info[4][0]) for info in infos]


class _RemoteStore:
    """What Holdfast needs of a store, over the connection to rank 0's."""

    def __init__(self, where: _Place, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._peer = _call(where, timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()

    def _ask(self, verb: bytes, key: str, value: bytes = b"") -> bytes | None:
        with self._lock:
            _write_message(self._peer, verb, key.encode(), value)
            answer, _, found = _read_message(self._peer)
        return found if answer == b"Y" else None

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        self._ask(b"S", key, value.encode() if isinstance(value, str) else value)

    def compare_set(self, key: str, expected: str, desired: str | bytes) -> bytes:
        """Set a key that has this value, or none: of many at the same time one wins."""
        data = desired.encode() if isinstance(desired, str) else desired
        before = expected.encode()
        return self._ask(b"C", key, _LENGTH.pack(len(before)) + before + data) or b""

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set."""
        limit = self._timeout_s if timeout is None else timeout.total_seconds()
        deadline = time.monotonic() + limit
        for key in keys:
            left = limit
            while self._ask(b"W", key, _SECONDS.pack(max(left, 0.0))) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout(f"key {key!r} was not set within {limit:g} s")

    def get(self, key: str) -> bytes:
        """Return a key's value once it is set."""
        self.wait([key])
        return self._ask(b"G", key) or b""

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are set."""
        return all(self._ask(b"G", key) is not None for key in keys)


def _call(where: _Place, timeout_s: float) -> socket.socket:
    """Connect to rank 0's store: on this host or another, whichever address answers to the word."""
    problems = []
    here = where.host == socket.gethostname()
    for address in ["127.0.0.1"] if here else where.addresses:
        try:
            peer = socket.create_connection((address, where.port), timeout=timeout_s)
            peer.sendall(where.token)
            _write_message(peer, b"G", b"hello", b"")
            _read_message(peer)
        except (OSError, EOFError) as error:
            problems.append(f"{address}: {error}")
            continue
        return peer
    raise Timeout(
        f"rank 0's store at port {where.port} cannot be reached ({'; '.join(problems)}); its "
        "host's name must resolve to an address that the other hosts reach",
        ranks=(0,),
    )


def _split(value: bytes) -> tuple[bytes, bytes]:
    """What a key's value must be, and what it is to become."""
    (length,) = _LENGTH.unpack_from(value)
    at = _LENGTH.size
    return value[at : at + length], value[at + length :]


def _read(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise EOFError("the connection was closed")
        data += part
    return data


def _read_message(peer: socket.socket) -> tuple[bytes, bytes, bytes]:
    verb, key_bytes, value_bytes = _HEADER.unpack(_read(peer, _HEADER.size))
    if key_bytes > _LARGEST or value_bytes > _LARGEST:
        raise ConfigError(f"a message of {key_bytes + value_bytes} bytes; accepted: {_LARGEST}")
    return verb, _read(peer, key_bytes), _read(peer, value_bytes)


def _write_message(peer: socket.socket, verb: bytes, key: bytes, value: bytes) -> None:
    peer.sendall(_HEADER.pack(verb, len(key), len(value)) + key + value)
