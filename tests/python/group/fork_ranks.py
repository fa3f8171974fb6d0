"""What a rank does that has forked children: data loaders' workers, and worse."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import platform
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import holdfast

# Ops of the survivors after the loss.
_AFTER = 3
_CHILDREN = 4
_CLONE = {"x86_64": 56, "aarch64": 220}


class Numbers:
    """A data set."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> int:
        return index


def _load(context: str) -> Callable[[], object]:
    """Start four workers that live on between steps; returns what takes a batch from them."""
    from torch.utils.data import DataLoader

    if context == "forkserver":
        multiprocessing.set_forkserver_preload(["torch.utils.data", "holdfast"])
    loader = DataLoader(
        Numbers(),
        batch_size=2,
        num_workers=_CHILDREN,
        persistent_workers=True,
        multiprocessing_context=context,
    )
    batches = iter(loader)
    # A fork server's workers outlive a rank that is killed, and so does the server.
    _tell_children(_descendants(os.getpid()))
    return lambda: next(batches)


def _descendants(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for one in lists for child in one.read_text().split()]
    return children + [below for child in children for below in _descendants(child)]


def _fork() -> Callable[[], object]:
    """Make children that live until somebody ends them."""
    _tell_children([_rests(os.fork()) for _ in range(_CHILDREN)])
    return lambda: None


def _clone() -> Callable[[], object]:
    """Make children of which no library learns: no handlers of fork() run."""
    # The interpreter's lock stays here: the children have no other thread that could take it.
    system_call = ctypes.PyDLL(None).syscall
    number = _CLONE[platform.machine()]
    _tell_children(
        [_rests(system_call(number, int(signal.SIGCHLD), 0, 0, 0, 0)) for _ in range(_CHILDREN)]
    )
    return lambda: None


def _rests(child: int) -> int:
    if child == 0:
        # Whoever reads what the rank says waits for the end of that.
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        while True:
            signal.pause()
    return child


def _tell_children(children: list[int]) -> None:
    print(json.dumps({"children": children}), flush=True)


def train() -> None:
    """Reduce, with CHILDREN made by one of these ways, until a rank is lost; tell when that was."""
    url = os.environ.get("URL")
    with holdfast.join(url, min_peers=2) if url else holdfast.init() as group:
        way = os.environ["CHILDREN"]
        own = {"none": lambda: lambda: None, "children": _fork, "clones": _clone}
        load = own[way]() if way in own else _load(way)
        data = np.ones(1 << 14, np.float32)
        after = 0
        begun = None  # the epoch in which all are there
        while after < _AFTER:
            load()
            data[:] = 1
            group.all_reduce(data)
            now = time.monotonic()
            assert group.outcome is not None
            if begun is None:
                # All have their children now.
                print(json.dumps({"ready": group.rank}), flush=True)
                begun = group.outcome.epoch
            if group.outcome.epoch == begun:
                assert (data == 2).all()
                continue
            if after == 0:
                print(json.dumps({"recovered": now}), flush=True)
            after += 1
            # What the dead had given to the op in which it was lost may be in it.
            assert set(np.unique(data)) <= ({1, 2} if after == 1 else {1})


def _open_files() -> dict[int, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except FileNotFoundError:  # the folder itself
            continue
    return found


def _mapped() -> set[str]:
    """Files of Holdfast, and devices and shared memory of UCX, that are mapped."""
    found = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[5].startswith(("/dev/", str(Path.cwd()), "/SYSV")):
            found.add(parts[5])
    return found


def children_have_nothing() -> None:
    """All that this process has opened since it began is closed in a child, and memory is not."""
    before = _open_files()
    with holdfast.init() as group:
        tensor = holdfast.empty(1 << 16, np.float32)
        tensor[:] = 7
        group.all_reduce(tensor)
        own = {fd: what for fd, what in _open_files().items() if fd not in before}
        assert len(own) >= 4, f"this test looks at nothing: {own}"
        assert any("holdfast." in name for name in _mapped()), _mapped()
        child = os.fork()
        if child == 0:
            kept = {fd: what for fd, what in _open_files().items() if fd in own}
            # UCX makes shared memory that it does not use here; nothing tells whose it is.
            kept = {fd: what for fd, what in kept.items() if "/ucx_shm_" not in what}
            mapped = {name for name in _mapped() if not re.search(r"\.pool\.|/ucx_shm_|SYSV", name)}
            readable = bool((tensor == 7 * group_size()).all())
            print(json.dumps({"kept": kept, "mapped": sorted(mapped), "reads": readable}))
            os._exit(0) if not kept and not mapped and readable else os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        # And the parent has all that it had.
        group.all_reduce(tensor)
        assert (tensor == 7 * group_size() ** 2).all()
        assert own.items() <= _open_files().items()


def group_size() -> int:
    """Return how many ranks the launcher said that there are; a child cannot ask the group."""
    return int(os.environ["WORLD_SIZE"])
