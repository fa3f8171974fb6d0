"""Work that nobody waits for, until somebody does.

Two threads, one of them of low priority; a task is done in small parts, by the slow thread, and
from the moment on that somebody waits for it by the other one. Priorities of a thread can only be
lowered by who is not root.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Iterator

# The lowest priority there is: gets what others leave.
_NICE = 19

Task = Iterator[None]
"""Yields between its parts."""


class Worker:
    """Does tasks one after the other.

    Parameters
    ----------
    failed : callable
        Told of an exception that ended a task; any thread.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        # Guards all below; held by nobody who does a part of a task.
        self._lock = threading.Condition()
        self._tasks: collections.deque[Task] = collections.deque()
        self._is_busy = False  # one of the threads has the first task
        self._hurry = False
        self._is_closed = False
        for is_slow in (True, False):
            threading.Thread(target=self._run, args=(is_slow,), daemon=True).start()

    def add(self, task: Task) -> None:
        """Do a task, when those before it have ended."""
        with self._lock:
            self._tasks.append(task)
            self._lock.notify_all()

    @property
    def has_more(self) -> bool:
        """Whether a task waits for the one that is being done."""
        with self._lock:
            return len(self._tasks) > 1

    def hurry(self) -> None:
        """Do all that is there at the usual priority: somebody waits."""
        with self._lock:
            self._hurry = True
            self._lock.notify_all()

    def close(self) -> None:
        """End at the next part."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def _run(self, is_slow: bool) -> None:
        if is_slow:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._is_closed or self._is_mine(is_slow))
                if self._is_closed:
                    return
                self._is_busy = True
                task = self._tasks[0]
            ended = self._do(task, is_slow)
            with self._lock:
                self._is_busy = False
                if ended:
                    self._tasks.popleft()
                    self._hurry = self._hurry and bool(self._tasks)
                self._lock.notify_all()

    def _is_mine(self, is_slow: bool) -> bool:
        return bool(self._tasks) and not self._is_busy and is_slow != self._hurry

    def _do(self, task: Task, is_slow: bool) -> bool:
        """Do parts until the task has ended, or is the other thread's."""
        try:
            for _ in task:
                if self._is_closed or (is_slow and self._hurry):
                    return False
        except BaseException as error:  # of any kind: the keeper says so, and lives
            self._failed(error)
        return True
