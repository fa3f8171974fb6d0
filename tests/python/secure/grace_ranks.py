"""What ranks do of which one is lost, or seems to be, while their connections are sealed."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import time
from pathlib import Path

import numpy as np

import holdfast

_LIBC = ctypes.CDLL(None, use_errno=True)
_LISTENS = 10  # a socket's state, by Linux's tcp_states.h
_REFUSALS = 5


def until_one_is_missing() -> None:
    """Reduce until a rank is lost; say when the first op without it had ended."""
    _reduce_until_one_is_missing(holdfast.init())


def until_a_peer_is_missing() -> None:
    """The same in an elastic group of two, whose members know each other by their coordinator."""
    _reduce_until_one_is_missing(holdfast.join(os.environ["URL"], min_peers=2))


def _reduce_until_one_is_missing(group: holdfast.Group) -> None:
    data = np.zeros(16_384, np.float32)
    print(f"ready {os.getpid()}", flush=True)
    outcome = None
    while outcome is None or not outcome.missing:
        group.all_reduce(data)
        outcome = group.outcome
    told = {"end": time.monotonic(), "missing": outcome.missing}
    print(json.dumps(told), flush=True)
    try:
        group.close(2)
    except holdfast.Unconfirmed:
        print("in doubt", flush=True)


def _sockets() -> list[socket.socket]:
    """This process's sockets of TCP, each by another descriptor."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        try:
            if not str(file.readlink()).startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(file.name)))
        except OSError:
            continue
        if one.type == socket.SOCK_STREAM and one.family == socket.AF_INET:
            found.append(one)
        else:
            one.close()
    return found


def _disconnect(one: socket.socket) -> None:
    """Reset a connection; or have a listener's port refuse all calls."""
    unspecified = ctypes.create_string_buffer(16)  # AF_UNSPEC: Linux disconnects
    _LIBC.connect(one.fileno(), unspecified, 16)


def reduce_among_refusals() -> None:
    """Reduce; rank 1's connections are reset, and its port refuses the calls that follow.

    Its kernel says so, as whatever lies in between could. It calls the others itself, and is heard.
    """
    group = holdfast.init()
    me, n = group.rank, group.size
    group.barrier()
    for turn in range(_REFUSALS):
        if me == 1:
            sockets = _sockets()
            # The listener first: the calls come at once.
            for one in sorted(
                sockets,
                key=lambda s: s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _LISTENS,
            ):
                _disconnect(one)
                one.close()
        data = np.full(1000, me + turn, np.int64)
        group.all_reduce(data)
        assert (data == n * (n - 1) // 2 + n * turn).all(), data[:4]
        assert group.outcome is not None
        assert not group.outcome.missing, group.outcome
    print(json.dumps({"live": list(group.live_ranks)}), flush=True)
    group.barrier()
    group.close()
