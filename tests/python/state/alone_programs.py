"""Programs of test_hindrances.py: one process that trains, with a keeper."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from waiting import eventually

from holdfast import _process
from holdfast.ft.health.evidence import Metrics, metrics_of
from holdfast.ft.state.snapshots import Snapshots

BEGUN = "holdfast_state_age_seconds"


def build(width: int = 8) -> dict[str, Any]:
    torch.manual_seed(3)
    net = nn.Linear(16, width)
    return {"model": net, "optim": torch.optim.AdamW(net.parameters(), 0.1)}


def step(state: dict[str, Any]) -> None:
    state["optim"].zero_grad()
    net = state["model"]
    net(torch.ones(2, net.in_features)).square().mean().backward()
    state["optim"].step()


def told() -> Metrics:
    """What this process counts."""
    (text,) = _process.metrics_texts()
    return metrics_of(text)


def train(snapshots: Snapshots, state: dict[str, Any], upto: int) -> None:
    for _ in snapshots.steps(upto):
        step(state)


class Interrupted(Exception):
    """Ends a training that is not over."""


def counts() -> None:
    """Everything that snapshots do is counted, and what is there no more has no age."""
    _process.node()
    state = build()
    folder = Path("states").absolute()
    options: dict[str, Any] = {"flush": "states", "flush_every": 1}
    try:
        with Snapshots(state, **options) as snapshots:
            assert told().total("holdfast_state_protected") == 0
            assert "nothing has been taken yet" in told().by(
                "holdfast_state_unprotected_seconds", "why"
            )
            train(snapshots, state, 4)

            def flushed() -> float:
                snapshots.take(snapshots.step + 1)
                snapshots.step += 1
                return told().total("holdfast_state_bytes_total", what="flushed")

            assert eventually(flushed) > 0
            found = told()
            reached = found.by("holdfast_state_step", "state")
            assert reached["committed"] == snapshots.committed >= 4
            assert 1 <= reached["flushed"] <= reached["committed"]
            ages = found.by(BEGUN, "state")
            assert 0 <= ages["committed"] <= ages["flushed"] < 60
            assert found.total("holdfast_state_protected") == 1
            assert not found.by("holdfast_state_unprotected_seconds", "why")
            nbytes = sum(p.nbytes for p in state["model"].parameters())
            captured = found.total("holdfast_state_bytes_total", what="captured")
            assert captured > 3 * nbytes * 4
            stalled = found.total("holdfast_state_stall_seconds_total")
            assert abs(stalled - snapshots.waited_s) < 1e-6
            assert 0 < stalled < 60
            raise Interrupted
    except Interrupted:
        pass
    assert not told().by(BEGUN, "state")
    # A path is of the trainer's folder, wherever its keeper is.
    assert [one for one in folder.iterdir() if one.name.startswith("step-")]
    begun = snapshots.committed
    with Snapshots(build(), **options) as snapshots:
        assert snapshots.step >= begun
        assert told().by("holdfast_state_restores_total", "source")["keeper"] == 1
        assert told().by("holdfast_state_step", "state")["committed"] == snapshots.step
    print("COUNTED")


def has_few_descriptors() -> None:
    """A state of more tensors than a process may have descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    torch.manual_seed(3)
    options: dict[str, Any] = {"flush": "states", "flush_every": 2}

    def made() -> dict[str, Any]:
        net = nn.ParameterList([torch.randn(3 + i % 5) for i in range(600)])
        return {"model": net, "optim": torch.optim.AdamW(net.parameters(), 0.1)}

    def advance(state: dict[str, Any]) -> None:
        for parameter in state["model"]:
            parameter.grad = parameter.detach() * 0.5
        state["optim"].step()

    state = made()
    try:
        with Snapshots(state, **options) as snapshots:
            for _ in snapshots.steps(6):
                advance(state)
            snapshots.take(7)
            assert not snapshots.unprotected
            assert snapshots.committed == 6
            raise Interrupted
    except Interrupted:
        pass
    again = made()
    with Snapshots(again, **options) as snapshots:
        assert snapshots.step in (6, 7)
        assert all(map(torch.equal, again["model"], state["model"]))
    # The keepers have ended; what is flushed is left.
    stored = made()
    with Snapshots(stored, **options) as snapshots:
        assert snapshots.step in (6, 7)
        assert all(map(torch.equal, stored["model"], state["model"]))
    print("RESTORED")


# ---- what is in the way --------------------------------------------------------------------------


def shown(found: list[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in found]


def stops_its_keeper() -> None:
    """A keeper that stands still costs one wait, is said, and protects again when it goes on."""
    _process.node()
    # Longer than what a socket takes in at once.
    state = {
        **build(),
        "notes": os.urandom(600_000),
        "many": {str(i): torch.ones(1) for i in range(9000)},
    }
    with warnings.catch_warnings(record=True) as found, Snapshots(state, patience=0.5) as snapshots:
        warnings.simplefilter("always")
        train(snapshots, state, 3)
        snapshots.take(4)
        assert not snapshots.unprotected, snapshots.unprotected
        os.kill(snapshots.keeper, signal.SIGSTOP)
        try:
            begun, waited = time.monotonic(), snapshots.waited_s
            for number in range(5, 12):
                step(state)
                snapshots.take(number)
            assert snapshots.waited_s - waited < 1.2, snapshots.waited_s - waited
            assert time.monotonic() - begun < 10
            assert "stands still" in snapshots.unprotected
            assert told().total("holdfast_state_protected") == 0
            assert "stands still" in str(told().by("holdfast_state_unprotected_seconds", "why"))
        finally:
            os.kill(snapshots.keeper, signal.SIGCONT)

        def protected(at: list[int] = [11]) -> bool:  # noqa: B006
            at[0] += 1
            step(state)
            snapshots.take(at[0])
            return not snapshots.unprotected

        eventually(protected)
        assert told().total("holdfast_state_protected") == 1
    assert any("the state is unprotected: " in text for text in shown(found))
    # What was read of a stopped trainer's tensors later is nothing that counts.
    print("GOES ON")


def fills_its_disk() -> None:
    """Files that do not fit are said, and cost nothing in memory; they come when there is room."""
    _process.node()
    disk = Path("disk").absolute()
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    (disk / "filler").write_bytes(bytes(3 << 20))
    state = {"weights": torch.ones(300_000), "step": 0}
    with (
        warnings.catch_warnings(record=True) as found,
        Snapshots(state, flush=f"file://{disk}", flush_every=1) as snapshots,
    ):
        warnings.simplefilter("always")

        def advance() -> None:
            state["step"] += 1
            snapshots.take(state["step"])

        def unprotected() -> str:
            advance()
            return snapshots.unprotected if "was not flushed" in snapshots.unprotected else ""

        said = eventually(unprotected)
        assert "No space left on device" in said, said
        before = snapshots.committed
        for _ in range(5):
            advance()
        assert snapshots.committed == before + 5
        (disk / "filler").unlink()

        def protected() -> bool:
            advance()
            return not snapshots.unprotected

        eventually(protected)
        # Nothing of what did not fit is left in the way.
        eventually(lambda: advance() or len([*disk.iterdir()]) <= 2)
    # The end of a job is flushed by its keeper, after the trainer has gone.
    last = f"step-{state['step']:06}-epoch-1"
    eventually(lambda: [one.name for one in disk.iterdir()] == [last])
    one = disk / last
    eventually((one / "manifest.json").exists)
    eventually(lambda: not [file.name for file in one.iterdir() if file.name.startswith(".")])
    assert any("No space left" in text for text in shown(found))
    print("FLUSHED")


def has_little_memory_in_shm() -> None:
    """Keepers need no /dev/shm."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/dev/shm"], check=True)
    state = {"weights": torch.ones(300_000)}
    with Snapshots(state) as snapshots:
        for number in range(1, 5):
            snapshots.take(number)
        assert (snapshots.committed, snapshots.unprotected) == (3, "")
    print("PROTECTED")
