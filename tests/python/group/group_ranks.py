"""Programs of test_group_life.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

import numpy as np
from lingering import linger, linger_while_threads_call

import holdfast


def exit_with_ops_running() -> None:
    group = holdfast.init()
    linger()
    group.recv(np.ones(4), peer=1 - group.rank, async_op=True)


def exit_while_a_thread_waits() -> None:
    group = holdfast.init()
    linger()
    threading.excepthook = lambda _: None
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        group.recv(np.ones(4), peer=1 - group.rank)

    threading.Thread(target=wait, daemon=True).start()
    entered.wait(10)
    # The rank that is through first leaves with an op running, which is a loss to the other.
    with contextlib.suppress(holdfast.PeerLost):
        group.barrier()


def exit_while_threads_call() -> None:
    group = holdfast.init()
    linger_while_threads_call(lambda tag: group.recv(np.ones(4), peer=1 - group.rank, tag=tag))
    with contextlib.suppress(holdfast.PeerLost):
        group.barrier()


def exit_by_exception() -> None:
    group = holdfast.init()
    work = group.recv(np.ones(4), peer=1 - group.rank, async_op=True)
    raise ValueError(f"on purpose {work.done()}")


def fork_with_a_group() -> None:
    group = holdfast.init()
    array = np.ones(4)
    work = group.recv(np.ones(1), peer=1 - group.rank, async_op=True)
    child = os.fork()
    if child == 0:
        for use in (lambda: group.all_reduce(array), work.wait, holdfast.init):
            try:
                use()
            except holdfast.HoldfastError as error:
                assert "forked" in str(error), error
            else:
                os._exit(3)
        del group, work
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # The child's end was no goodbye of ours.
    group.all_reduce(array)
    assert array.tolist() == [2.0] * 4
    group.send(np.ones(1), peer=1 - group.rank)
    work.wait()
    group.close()


def meet_twice() -> None:
    for _ in range(2):
        with holdfast.init() as group:
            array = np.ones(4)
            group.all_reduce(array)
            assert array.tolist() == [float(group.size)] * 4


def leave_at_once() -> None:
    holdfast.init()


def succeed_when_an_op_ends_between_two_looks() -> None:
    """A blocking wait looks for signals every 100 ms; ops that end just then succeed, too."""
    with holdfast.init() as group:
        for i in range(40):
            if group.rank == 0:
                time.sleep(0.0995 + 0.00002 * i)
                group.send(np.ones(1), peer=1)
            else:
                group.recv(np.ones(1), peer=0)
            group.barrier()
