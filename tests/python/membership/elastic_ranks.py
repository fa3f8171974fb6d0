"""What peers of elastic groups, and ranks of jobs with a coordinator, do in tests."""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import holdfast
from holdfast.comm.state.messages import GroupMessages


def _state(seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "weights": generator.standard_normal(700_000).astype(np.float32),
        "matrix": generator.standard_normal((64, 32)),
        "step": np.zeros(1, np.int64),
    }


def _crc(state: dict[str, np.ndarray]) -> int:
    crc = 0
    for name in sorted(state):
        crc = zlib.crc32(np.ascontiguousarray(state[name]).tobytes(), crc)
    return crc


def peer() -> None:
    """Join, take over the state, and train until the stop file appears; the state must agree."""
    state = _state(os.getpid())
    with holdfast.join(os.environ["URL"], min_peers=int(os.environ["MIN_PEERS"])) as group:
        report = group.sync(state, overlap=bool(os.environ.get("OVERLAP")))
        print("ready", group.rank, report.fetched, int(state["step"][0]), flush=True)
        own_steps = 0
        while own_steps < int(os.environ.get("OWN_STEPS", "1000000")):
            group.advance()
            data = np.full(1000, 1.0, np.float32)
            group.all_reduce(data)
            # All that are there, or the survivors of one that went on the way.
            assert 1 <= data[0] <= len(group.live_ranks) + 1, (data[0], group.live_ranks)
            state["weights"] *= 1.0 + data[0] / 1024
            state["weights"] %= 7.0
            state["step"] += 1
            own_steps += 1
            flag = np.array([Path("stop").exists()], np.int32)
            group.all_reduce(flag, op="max")
            if flag[0]:
                break
            time.sleep(0.002)
        line = {"step": int(state["step"][0]), "crc": _crc(state)}
        print(f"END {json.dumps(line)}", flush=True)
        if own_steps == int(os.environ.get("OWN_STEPS", "0")):
            group.leave()


def close_at_once() -> None:
    """End some worlds at the step that one rank decides, and tell which steps these were."""
    steps = []
    for world in range(8):
        with holdfast.join(f"{os.environ['URL']}/world{world}", min_peers=3) as group:
            step = 0
            flag = np.zeros(1, np.int32)
            while not flag[0]:
                group.advance()
                group.all_reduce(np.ones(1000, np.float32))
                step += 1
                decides = step == 10 + world and group.rank == world % 3
                flag[0] = decides or step > 10 + world
                group.all_reduce(flag, op="max")
        steps.append(step)
    print(f"END {json.dumps({'steps': steps})}", flush=True)


def agree_who_joined() -> None:
    """Step until four are there; at every boundary all name the same newcomers."""
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        came: list[int] = []
        while group.size < 4 or not came:
            view = group.advance()
            came.extend(view.joined)
            own = sum(1 << rank for rank in view.joined)
            masks = np.array([own, -own], np.int64)
            group.all_reduce(masks, op="max")
            assert masks[0] == -masks[1] == own, (view, masks)
            if view.epoch == 1:
                print("ready", flush=True)
                assert view.joined == (), view
            time.sleep(0.002)
        assert set(came) <= {2, 3}, came
        assert group.rank < 2 or group.rank in came, came


def fixed() -> None:
    """Rank of a job of a fixed size whose views a coordinator decides."""
    with holdfast.init() as group:
        print("ready", group.epoch, flush=True)
        flag = np.zeros(1, np.int32)
        while not flag[0]:
            group.advance()
            mask = np.array([1 << group.rank], np.int64)
            group.all_reduce(mask)
            flag[0] = Path("stop").exists()
            group.all_reduce(flag, op="max")
            time.sleep(0.002)
        print(f"END {int(mask[0])}", flush=True)


def host() -> None:
    """Stay while guests come and go."""
    with holdfast.join(os.environ["URL"]) as group:
        group.sync({"step": np.zeros(1000, np.int64)})
        print("ready", flush=True)
        while True:
            group.advance()
            group.all_reduce(np.ones(1, np.int32))


def churn() -> None:
    """Join and leave, over and over, in one process; print what it holds of the system."""
    rounds = int(os.environ["ROUNDS"])
    for number in range(rounds + 1):
        if number in (20, rounds):
            print("HOLDS", json.dumps(_holdings()), flush=True)
        with holdfast.join(os.environ["URL"]) as group:
            group.sync({"step": np.zeros(1000, np.int64)})
            group.advance()
            group.all_reduce(np.ones(1, np.int32))
            group.leave()


def _holdings() -> dict[str, int]:
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": int(fields["Threads"]),
        "resident_kb": int(fields["VmRSS"].split()[0]),
        "segments": len([p for p in Path("/dev/shm").iterdir() if f".{os.getpid()}." in p.name]),
    }


def sync_cases() -> None:
    """One thing after the other that sync() must do, in a group of four."""
    with holdfast.init() as group:
        me = group.rank
        same = _state(1)
        assert group.sync(same).fetched == 0

        # One flipped bit on one rank: its chunk alone is fetched.
        before = _crc(same)
        if me == 2:
            same["weights"].view(np.uint8)[1_500_000] ^= 4
        report = group.sync(same)
        assert report.fetched == (1 if me == 2 else 0), report
        assert _crc(same) == before

        # The majority wins, not the lowest rank.
        state = _state(5 if me == 0 else 6)
        assert group.sync(state).source == 1
        assert _crc(state) == _crc(_state(6))

        # Nobody agrees: the lowest rank.
        state = _state(100 + me)
        assert group.sync(state).source == 0
        assert _crc(state) == _crc(_state(100))

        # Views that are not contiguous, a scalar, nothing at all.
        grid = np.arange(48, dtype=np.float64).reshape(6, 8) + me
        odd = {"every second": grid[::2, ::2], "scalar": np.array(float(me)), "no": np.zeros(0)}
        group.sync(odd)
        assert (grid[::2, ::2] == np.arange(48).reshape(6, 8)[::2, ::2]).all()
        assert (grid[1::2] == np.arange(48).reshape(6, 8)[1::2] + me).all()
        assert odd["scalar"] == 0.0

        # Another shape on one rank: all are told which.
        try:
            group.sync({"a": np.zeros(4 if me == 3 else 5, np.float32)})
        except holdfast.ConfigError as error:
            assert "'a' is f32 (5,)" in str(error) or "'a' is f32 (4,)" in str(error), error
        else:
            raise AssertionError("shapes differ")
        group.barrier()
        print("ok", flush=True)


def sync_overlapped() -> None:
    """Holders go on at once; the next op waits for whoever fetches."""
    with holdfast.init() as group:
        me = group.rank
        state = _state(5 if me == 2 else 6)
        assert group.sync(state, overlap=True).fetched == (4 if me == 2 else 0)
        assert _crc(state) == _crc(_state(6))
        total = np.ones(1000, np.float32)
        group.all_reduce(total)
        assert (total == group.size).all()
        for array in state.values():
            array += 1
        group.advance()

        # Views that are not contiguous are right at once, too, and not written to again.
        grid = np.zeros((6, 8)) + (me == 2)
        assert group.sync({"grid": grid[::2, ::2]}, overlap=True).fetched == (me == 2)
        assert (grid[::2, ::2] == 0).all()

        # Whoever writes too early is found out, everywhere, at the next op.
        send = GroupMessages.send

        def written_to(self: Any, *arguments: Any) -> Any:
            state["matrix"] += 1.0
            return send(self, *arguments)

        GroupMessages.send = written_to  # type: ignore[method-assign]
        if me == 2:
            state["matrix"] -= 1.0
        try:
            group.sync({"matrix": state["matrix"]}, overlap=True)
            group.barrier()
        except holdfast.ProtocolError as error:
            assert "written to meanwhile" in str(error), error
        else:
            raise AssertionError("nobody noticed")
        GroupMessages.send = send  # type: ignore[method-assign]
        group.barrier()

        # Closing lets the others fetch the rest, and keeps it until then.
        last = np.full(20_000_000, me == 2, np.int8)
        group.sync({"last": last}, overlap=True)
        assert (last == 0).all()
        del last
    print("ok", flush=True)


def sync_torch() -> None:
    """Tensors and parameters are written in place."""
    import torch

    with holdfast.init() as group:
        torch.manual_seed(group.rank)
        model = torch.nn.Linear(300, 200)
        group.sync(dict(model.state_dict()))
        torch.manual_seed(0)
        right = torch.nn.Linear(300, 200)
        assert torch.equal(model.weight, right.weight)
        print("ok", flush=True)


def join_and_say() -> None:
    """Join; say what happens."""
    try:
        with holdfast.join(os.environ["URL"], timeout=float(os.environ["LIMIT"])) as group:
            print("in", group.rank)
    except holdfast.HoldfastError as error:
        print(type(error).__name__, error)


def ddp() -> None:
    """DDP over an elastic group that grows from two to three."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = torch.nn.Linear(10, 3)
    state = {**model.state_dict(), "step": torch.zeros(1, dtype=torch.int64)}
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        group.sync(state)
        print("ready", group.rank, flush=True)
        wrapped = None
        size = 0
        while size < 3 or state["step"] % 20 != 0:
            joined = group.advance().joined
            if joined or wrapped is None:
                group.as_process_group()
                wrapped = DistributedDataParallel(model, init_sync=False)
                wrapped.register_comm_hook(None, holdfast.average_gradients)
            size = dist.get_world_size()
            assert size == group.size
            x = torch.full((4, 10), float(group.rank + 1))
            model.zero_grad()
            wrapped(x).sum().backward()
            mean = sum(range(1, size + 1)) / size
            assert torch.allclose(model.weight.grad, torch.full((3, 10), 4 * mean))
            with torch.no_grad():
                model.weight -= 0.01 * model.weight.grad
            state["step"] += 1
            time.sleep(0.01)
        end = {"sum": model.weight.sum().item(), "size": size}
        print(f"END {json.dumps(end)}", flush=True)
