"""Programs of test_hindrances.py: what is wrong is refused, clearly, before a step is done."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from alone_programs import Interrupted, build, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial

from holdfast import _job
from holdfast.errors import AuthFailed, ConfigError
from holdfast.ft.state.keeper import link
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.snapshots import Snapshots

TERABYTES = 4 << 40


def refused(state: dict[str, Any], words: str, **options: Any) -> None:
    """All is said before the first step, and no keeper is left with memory of it."""
    with pytest.raises(ConfigError, match=words), Snapshots(state, **options):
        raise AssertionError("a step was begun")


def is_refused() -> None:
    """Codes, memory, tensors and places that there are not."""
    refused(build(), r"s4://.*is unknown; accepted: file://", flush="s4://bucket")
    refused(build(), r"code \(3, 1\) needs 4 hosts, there are 1", code=(3, 1))
    # As large as a host's memory never is, and nothing of it on any disk.
    with Path("sparse").open("wb") as file:
        file.truncate(TERABYTES)
    large = torch.from_numpy(np.memmap("sparse", np.float32, "r+"))
    words = (
        r"keepers need \d{13,14} bytes of memory for 2 snapshots of 1 ranks on host .* can be had"
    )
    refused({"weights": large}, words)
    refused({"weights": large}, words.replace("2 snap", "3 snap"), flush="s", flush_every=5)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    mesh = init_device_mesh("cpu", (1,))
    half = DTensor.from_local(torch.ones(3), mesh, [Partial()], run_check=False)
    refused({"sums": {"half": half}}, r"'sums/half'.*sum that nobody has.*redistribute")
    dist.destroy_process_group()
    # Whoever is refused has left nothing behind that a right one stumbles over.
    with Snapshots(build()) as snapshots:
        train(snapshots, build(), 2)
        assert snapshots.committed >= 1
    print("REFUSED")


def is_anothers() -> None:
    """Another model's state, another trainer of this rank, another job, another user."""
    state = build()
    try:
        with Snapshots(state) as snapshots:
            train(snapshots, state, 3)
            link._MISSED_S = 0.2
            address = Address(_job.job_name(), _job.host_name(), 0)
            with pytest.raises(ConfigError, match="has a trainer already, which is alive"):
                link.KeeperLink.find(address, None, 60.0)
            with Snapshots(build(), job="another") as others:
                assert others.step == 0
            if os.getuid() == 0:
                name = address.name
                _other_user(lambda: _hears_nothing(name))
            raise Interrupted
    except Interrupted:
        pass
    words = r"another model's state: tensor 'model/weight' is float32, \[8, 16\] there .*\[9, 16\]"
    refused(build(9), words)
    more = {**build(), "more": torch.ones(1)}
    refused(more, "another model's state: it has no tensor 'more'")
    # It is there all the same for whoever has the right one.
    with Snapshots(build()) as snapshots:
        assert snapshots.step >= 2
    if os.getuid() == 0:
        _taken_by_another_user()
    print("REFUSED")


def _other_user(act: Callable[[], None]) -> None:
    """Do something in a process of nobody's."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(65534)
            act()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _connected(name: bytes) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.settimeout(20)
    caller.connect(name)
    return caller


def _hears_nothing(name: bytes) -> None:
    with _connected(name) as caller:
        assert caller.recv(100) == b""


def _taken_by_another_user() -> None:
    name = Address("taken", "", 0).name
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        listener.bind(name)
        listener.listen()
        os.write(told, b"1")
        listener.accept()
        os._exit(0)
    assert os.read(ready, 1)
    with pytest.raises(AuthFailed, match=r"is of user 65534; accepted: user 0"):
        Address("taken", "", 0).connect(5.0)
    os.waitpid(child, 0)
