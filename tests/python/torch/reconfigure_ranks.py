"""What ranks do whose process group gets its members by torch's reconfigure."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist
from torch_world import check, expect

from holdfast.errors import ConfigError, Timeout


def outside() -> dist.Store:
    """Return what stands for the world outside: only names and handles pass through it."""
    return dist.FileStore(os.environ["MEETING_FILE"] + "-outside", -1)


def begin() -> str:
    """Make the default group, without members; return this process' handle."""
    dist.init_process_group(
        "holdfast", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True
    )
    return dist._get_reconfigure_handle()


def say(name: str, handle: str) -> None:
    outside().set(name, handle)


def hear(*names: str) -> list[str]:
    store = outside()
    return [store.get(name).decode() for name in names]


def sum_is(want: float) -> None:
    t = torch.full((1000,), 2.0 ** dist.get_rank())
    dist.all_reduce(t)
    check(t, torch.full((1000,), want), "all_reduce")


def peer() -> None:
    """Meet as 3, lose the second, go on as 2, and as 3 again with a newcomer."""
    name = os.environ["RANK"]
    own = begin()
    assert dist._supports_reconfigure()
    assert dist._get_reconfigure_handle() == own
    expect(ConfigError, "_reconfigure", lambda: dist.all_reduce(torch.ones(1)))
    say(name, own)
    if name != "3":
        handles = hear("2", "0", "1")
        dist._reconfigure(uuid=7, handles=handles).wait()
        assert dist.get_rank() == handles.index(own)
        assert dist.get_world_size() == 3
        sum_is(7.0)
        refusals(own, handles)
        sum_is(7.0)
        if name == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        dist._reconfigure(uuid=8, handles=set(hear("0", "2"))).wait()
        assert dist.get_world_size() == 2
        sum_is(3.0)
    everybody = hear("3", "0", "2")
    dist._reconfigure(uuid=9, handles=everybody, timeout=timedelta(seconds=60)).wait()
    assert dist.get_rank() == everybody.index(own)
    sum_is(7.0)
    dist.destroy_process_group()


def refusals(own: str, handles: list[str]) -> None:
    def call(uuid: int, handles: list[str], seconds: float = 60) -> None:
        dist._reconfigure(uuid=uuid, handles=handles, timeout=timedelta(seconds=seconds)).wait()

    expect(ConfigError, "uuid 7 was used", lambda: call(7, handles))
    others = [handle for handle in handles if handle != own]
    expect(ConfigError, "not among the 2", lambda: call(100, others))
    expect(ConfigError, "is no handle", lambda: call(101, [own, "gloo:somewhere"]))
    expect(ConfigError, "is no handle", lambda: call(102, [own, "holdfast://host:70000"]))
    expect(ConfigError, "given twice", lambda: call(103, [own, own]))
    # Nobody else has this uuid.
    expect(Timeout, "never came", lambda: call(200 + int(os.environ["RANK"]), [own, *others], 0.5))
    # Nobody listens there.
    expect(Timeout, "the first handle", lambda: call(104, ["holdfast://127.0.0.1:1", own], 0.5))
