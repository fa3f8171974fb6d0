"""What ranks do whose connections are sealed by a shared secret."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np

import holdfast


def collectives() -> None:
    """Run every kind of transfer, in sizes below and above all limits of records and frames."""
    with holdfast.init() as group:
        me, n = group.rank, group.size
        for count in (1, 1000, 16_384, 70_001, 1_500_003):
            data = np.full(count, me + 1.0, np.float32)
            group.all_reduce(data)
            assert (data == n * (n + 1) / 2).all(), count
            gathered = np.empty(n * count, np.int32)
            group.all_gather(gathered, np.full(count, me, np.int32))
            assert (gathered.reshape(n, count) == np.arange(n)[:, None]).all(), count
            if me == 0:
                group.send(np.arange(count, dtype=np.float64), 1)
            if me == 1:
                got = np.empty(count)
                group.recv(got, 0)
                assert (got == np.arange(count)).all(), count
        group.barrier()


def until_one_is_killed() -> None:
    """Reduce; one rank ends by SIGKILL, and the others go on."""
    with holdfast.init() as group:
        data = np.ones(50_000, np.float32)
        for step in range(400):
            if group.rank == 2 and step == 100:
                os.kill(os.getpid(), signal.SIGKILL)
            data[:] = 1
            group.all_reduce(data)
            assert data[0] in (group.size, group.size - 1), data[0]
        assert len(group.live_ranks) == group.size - 1
        print("went on", flush=True)


# What nobody may read on the way.
PATTERN = b"gradients-of-a-secret-model-"


def telltale() -> None:
    """Exchange tensors that are easy to recognise, under a name that is, too."""
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        text = np.frombuffer(PATTERN * 4000, np.uint8).copy()
        for _ in range(20):
            group.broadcast(text, root=0)
            group.all_reduce(text, op="max")
        assert bytes(text[: len(PATTERN)]) == PATTERN
        state = {"telltale_weights": np.frombuffer(PATTERN * 1000, np.uint8).copy()}
        group.sync(state)
        group.barrier()
        print("exchanged", flush=True)
        time.sleep(0.2)


def listening() -> None:
    """Tell at which addresses this process listens."""
    with holdfast.init() as group:
        group.barrier()
        sockets = set()
        for entry in Path("/proc/self/fd").iterdir():
            try:
                target = str(entry.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
        found = set()
        for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in sockets:
                    found.add(words[1].partition(":")[0])
        print("listens", *sorted(found), flush=True)


def refused() -> None:
    """Tell why the job could not be entered."""
    try:
        holdfast.init().close()
    except holdfast.HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        print("let in", flush=True)


def refused_by_coordinator() -> None:
    """Tell why the elastic group could not be joined."""
    try:
        holdfast.join(os.environ["URL"], min_peers=1).close()
    except holdfast.HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        print("let in", flush=True)


def _resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def rates() -> None:
    """Reduce in phases that files of these names begin, and tell how often, and what it took."""
    url = os.environ.get("URL")
    entered = holdfast.join(url, min_peers=4) if url else holdfast.init()
    with entered as group:
        data = np.ones(65_536, np.float32)
        more = np.zeros(1, np.int32)
        told: dict[str, float] = {}
        for phase in ("warm", "before", "attacked", "after"):
            more[0] = 1
            while more[0]:
                more[0] = group.rank == 0 and not Path(phase).exists()
                group.broadcast(more, root=0)
                time.sleep(0.02)
            ops, begun = 0, time.monotonic()
            more[0] = 1
            while more[0]:
                for _ in range(20):
                    data[:] = 1
                    group.all_reduce(data)
                    assert data[0] == group.size, data[0]
                ops += 20
                more[0] = group.rank == 0 and time.monotonic() - begun < 4
                group.broadcast(more, root=0)
            told[phase] = ops / (time.monotonic() - begun)
            told[f"{phase}_mib"] = _resident_mib()
            told[f"{phase}_epoch"] = group.epoch
            Path(f"{phase}.{group.rank}").touch()
        print(json.dumps(told), flush=True)


def through_others() -> None:
    """Stay in a group whose coordinator is reached through somebody who changes what is said."""
    with holdfast.join(os.environ["URL"], min_peers=1) as group:
        Path("in").touch()
        while not Path("changed").exists():
            time.sleep(0.02)
        for _ in range(50):
            group.advance()
            data = np.ones(100, np.float32)
            group.all_reduce(data)
            assert data[0] == 1
            time.sleep(0.02)
        print("went on", flush=True)


def by_token() -> None:
    """Stay in a group, step by step, until a file says to leave; tell of every new view."""
    here = Path(os.environ["HERE"])
    try:
        group = holdfast.join(os.environ["URL"], min_peers=int(os.environ["MIN_PEERS"]))
    except holdfast.HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return
    seen = 0
    data = np.ones(20_000, np.float32)
    try:
        leave = np.zeros(1, np.int32)
        while not leave[0]:
            group.advance()
            if group.epoch != seen:
                seen = group.epoch
                present = len(group.live_ranks)
                (here / f"view.{group.rank}").write_text(f"{os.getpid()} {present}")
            data[:] = 1
            here_before = len(group.live_ranks)
            group.all_reduce(data)
            # Whoever is still there counts once, and nobody else but one that has just gone.
            assert data[0] == data[-1], data
            assert len(group.live_ranks) <= data[0] <= here_before, data
            leave[0] = (here / "leave").exists()
            group.all_reduce(leave, op="max")
            time.sleep(0.01)
        print("left", flush=True)
        group.leave()
    except holdfast.HoldfastError as error:
        (here / f"out.{os.getpid()}").touch()
        print(f"{type(error).__name__}: {error}", flush=True)
