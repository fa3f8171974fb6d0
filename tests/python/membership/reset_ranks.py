"""Ranks whose connections are closed under them, as a firewall or a lost mapping closes them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np

import holdfast

_LIBC = ctypes.CDLL(None, use_errno=True)
_ESTABLISHED = b"\x01"  # a socket's state, by Linux's tcp_states.h


def connections() -> list[socket.socket]:
    """This process's TCP connections, each by another descriptor."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        try:
            if not str(file.readlink()).startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(file.name)))
            one.getpeername()
        except OSError:
            continue
        if one.type == socket.SOCK_STREAM and one.family == socket.AF_INET:
            found.append(one)
        else:
            one.close()
    return found


def cut(one: socket.socket, how: str) -> None:
    """Close a connection between two that live: both are told so by their kernels."""
    if how == "reset":
        unspecified = ctypes.create_string_buffer(16)  # AF_UNSPEC: Linux disconnects, with a reset
        _LIBC.connect(one.fileno(), unspecified, 16)
    else:
        with contextlib.suppress(OSError):  # the other end was faster
            one.shutdown(socket.SHUT_RDWR)


def _cut_now_and_then(cuts: int, rng: random.Random) -> None:
    shortest, longest = map(float, os.environ.get("PAUSES", "0.02,0.1").split(","))
    for _ in range(cuts):
        time.sleep(rng.uniform(shortest, longest))
        links = connections()
        rng.shuffle(links)
        # One connection, or all that this rank has.
        chosen = links if rng.random() < 0.3 else links[:1]
        for link in chosen:
            cut(link, rng.choice(["reset", "close"]))
        for link in links:
            link.close()


def await_mended(count: int) -> None:
    """Return when so many connections stand, or when two seconds have shown that they never will.

    Who leaves while its connection is broken says so to nobody, and has died to the others.
    """
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        links = connections()
        standing = [link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) for link in links]
        for link in links:
            link.close()
        if standing.count(_ESTABLISHED) >= count:
            return
        time.sleep(0.01)


def reduce_among_resets() -> None:
    """Reduce while connections are closed; say how late the latest op was, and in which view."""
    cuts = int(os.environ["CUTS"])
    group = holdfast.init()
    me, n = group.rank, group.size
    group.barrier()  # all have all their connections
    whole = connections()
    for link in whole:
        link.close()
    cutter = threading.Thread(target=_cut_now_and_then, args=(cuts, random.Random(me)))
    cutter.start()
    latest = 0.0
    ops = 0
    going = np.ones(1, np.int64)
    while going[0] > 0:
        count = (1, 1000, 100_000)[ops % 3]
        data = np.full(count, (me + 1) * (ops + 1), np.int64)
        began = time.monotonic()
        group.all_reduce(data)
        latest = max(latest, time.monotonic() - began)
        assert (data == n * (n + 1) // 2 * (ops + 1)).all(), (ops, data[:4])
        assert group.outcome is not None
        assert not group.outcome.missing, group.outcome
        going[0] = cutter.is_alive()
        group.all_reduce(going)
        ops += 1
    cutter.join()
    told = {"epoch": group.epoch, "ops": ops, "latest": latest, "live": list(group.live_ranks)}
    print(json.dumps(told), flush=True)
    await_mended(len(whole))
    group.barrier()
    group.close()


def messages_among_resets() -> None:
    """Messages go round; those that are lost with a connection are told of, none is mistaken."""
    group = holdfast.init()
    me, n = group.rank, group.size
    lost = 0
    for turn in range(int(os.environ["CUTS"])):
        sent = [
            group.send(np.full(size, turn * 10 + i, np.int64), (me + 1) % n, tag=i, async_op=True)
            for i, size in enumerate((1, 4000, 50_000))
        ]
        if turn % 3 == me % 3:
            for link in connections():
                cut(link, "reset")
                link.close()
        for i, size in enumerate((1, 4000, 50_000)):
            data = np.full(size, -1, np.int64)
            try:
                group.recv(data, (me - 1) % n, tag=i)
                assert (data == turn * 10 + i).all(), (turn, i, data[:4])
            except holdfast.PeerLost as error:
                assert "message was lost" in str(error), error
                lost += 1
        for work in sent:
            work.wait()
    group.barrier()
    print(json.dumps({"lost": lost, "live": list(group.live_ranks)}), flush=True)
    group.close()


def groups_around_a_reset() -> None:
    """One forgets a peer while that one stands still, and calls it for another group."""
    me = int(os.environ["RANK"])
    pids = Path(os.environ["MEETING_FILE"])
    pids.with_name(f"pid{me}").write_text(str(os.getpid()))
    for turn in range(6):
        group = holdfast.init(name=f"turn{turn}")
        group.barrier()
        if me == turn % 2:
            other = pids.with_name(f"pid{1 - me}").read_text()
            os.kill(int(other), signal.SIGSTOP)
            waker = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {other}"])
            links = connections()
            group.close()
            for link in links:
                cut(link, "reset")
                link.close()
        else:
            time.sleep(0.2)
            group.close()
        with holdfast.init(name=f"again{turn}") as again:
            for size in (1, 1000, 100_000):
                data = np.full(size, me + 1, np.int64)
                again.all_reduce(data)
                assert (data == 3).all(), data[:4]
            assert again.live_ranks == (0, 1), again.live_ranks
        if me == turn % 2:
            waker.wait(10)
