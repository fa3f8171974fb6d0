"""Programs of test_map_groups.py: each function is one rank, started with RANK and WORLD_SIZE."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

import holdfast

# So much that trees are the fastest, and no multiple of anything.
LARGE = 300_007


def own(rank: int, count: int, dtype: type) -> np.ndarray:
    return (np.arange(count) % 13 + rank).astype(dtype)


def total(ranks: list[int], count: int, dtype: type) -> np.ndarray:
    return sum((own(rank, count, dtype) for rank in ranks), np.zeros(count, dtype))


def algorithm_of_last_op(group: holdfast.Group) -> str:
    last = max(group.flight()["entries"], key=lambda entry: entry["number"])
    return last["algorithm"]


def run_blocks(group: holdfast.Group, everybody: list[int]) -> None:
    """What has a block for every rank."""
    self = everybody[group.rank]
    for count in (LARGE, 3):
        blocks = np.concatenate([own(self + r, count, np.float32) for r in range(group.size)])
        mine = np.empty(count, np.float32)
        group.reduce_scatter(mine, blocks)
        shifted = [rank + group.rank for rank in everybody]
        assert np.array_equal(mine, total(shifted, count, np.float32))
        whole = np.empty(count * group.size, np.float32)
        group.all_gather(whole, own(self, count, np.float32))
        expected = np.concatenate([own(rank, count, np.float32) for rank in everybody])
        assert np.array_equal(whole, expected)


def run_all(group: holdfast.Group, everybody: list[int]) -> None:
    """All that goes by a map, and what does not, one after the other, and at once."""
    self = everybody[group.rank]
    for dtype, count in ((np.float32, LARGE), (np.int64, LARGE), (np.float64, 3)):
        array = own(self, count, dtype)
        group.all_reduce(array)
        assert np.array_equal(array, total(everybody, count, dtype))
        if group.size > 2:
            assert (algorithm_of_last_op(group) == "forest") is (count == LARGE)
        for root in (0, group.size - 1):
            array = own(self, count, dtype)
            group.broadcast(array, root=root)
            assert np.array_equal(array, own(everybody[root], count, dtype))
            array = own(self, count, dtype)
            group.reduce(array, root=root)
            if group.rank == root:
                assert np.array_equal(array, total(everybody, count, dtype))
    run_blocks(group, everybody)
    arrays = [own(self, LARGE, np.float32) for _ in range(6)]
    works = [group.all_reduce(array, op="avg", async_op=True) for array in arrays]
    for work, array in zip(works, arrays, strict=True):
        work.wait()
        expected = total(everybody, LARGE, np.float32) / np.float32(group.size)
        assert np.allclose(array, expected, rtol=1e-6)


def run_everything() -> None:
    with holdfast.init() as group:
        everybody = list(range(group.size))
        run_all(group, everybody)
        group.barrier()


def run_torch_groups() -> None:
    """Groups of some ranks: each goes by its part of the map."""
    import torch
    import torch.distributed as dist

    path = os.environ["MEETING_FILE"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("holdfast", init_method=f"file://{path}", rank=rank, world_size=size)
    for ranks in ([0, size - 1], [size - 1, 1, 0], list(range(size))):
        part = dist.new_group(ranks)
        if rank not in ranks:
            continue
        tensor = torch.from_numpy(own(rank, LARGE, np.float32))
        dist.all_reduce(tensor, group=part)
        assert np.array_equal(tensor.numpy(), total(ranks, LARGE, np.float32))
        tensor = torch.from_numpy(own(rank, LARGE, np.float32))
        dist.broadcast(tensor, src=size - 1, group=part)
        assert np.array_equal(tensor.numpy(), own(size - 1, LARGE, np.float32))
    dist.barrier()
    dist.destroy_process_group()


def run_with_others_maps() -> None:
    try:
        holdfast.init()
    except holdfast.HoldfastError as error:
        print("REFUSED", error, flush=True)
        raise SystemExit(0) from None
    raise SystemExit("it began with a map of its own")


def lose_one() -> None:
    group = holdfast.init()
    everybody = list(range(group.size))
    # Past the calls that start from the plans before the loss (GroupConfig.calls_on_base).
    for step in range(110):
        if group.rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        array = own(group.rank, LARGE, np.float32)
        outcome = group.all_reduce(array, async_op=True).wait()
        whole = total(everybody, LARGE, np.float32)
        left = total([r for r in everybody if r != 1], LARGE, np.float32)
        # Each part has either all ranks in it or those that are left, and is the same everywhere.
        assert np.all((array == whole) | (array == left)), outcome
        if step > 25:
            assert np.array_equal(array, left), step
    group.close()


# ---- maps that are taken while the group runs --------------------------------------------------


def cards(rates: list[float]) -> str:
    """A map: a network card of so many Gbit/s each."""
    everybody = list(range(len(rates)))
    shared = []
    for rank, rate in enumerate(rates):
        others = [r for r in everybody if r != rank]
        shared.append({"name": f"out {rank}", "gbit_per_s": rate, "from": [rank], "to": others})
        shared.append({"name": f"into {rank}", "gbit_per_s": rate, "from": others, "to": [rank]})
    chart = {
        "format": 1,
        "ranks": len(rates),
        "gbit_per_s": 1,
        "alpha_us": 50,
        "shared": shared,
    }
    return json.dumps(chart)


def take_maps() -> None:
    """Three maps, from one rank or from all, with ops under way before and after."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        assert group.topology() == {"version": 0, "source": "none", "digest": None, "map": None}
        for version in (1, 2, 3):
            arrays = [own(group.rank, LARGE, np.float32) for _ in range(3)]
            works = [group.all_reduce(array, async_op=True) for array in arrays]
            rates = [0.1 * version] * (group.size - 1) + [0.025]
            mine = cards(rates) if version == 3 or group.rank == group.size - 1 else None
            group.set_topology(mine)
            for work, array in zip(works, arrays, strict=True):
                work.wait()
                assert np.array_equal(array, total(everybody, LARGE, np.float32))
            known = group.topology()
            assert (known["version"], known["source"]) == (version, "agreed")
            assert np.isclose(known["map"]["shared"][0]["gbit_per_s"], rates[0])
            digests = np.zeros(group.size, np.uint64)
            digests[group.rank] = int(known["digest"], 16)
            group.all_reduce(digests)
            assert len(set(digests.tolist())) == 1
            run_all(group, everybody)
        assert "decides" in group.explain("all_reduce", 1 << 20).why
        group.barrier()


def refuse_maps() -> None:
    """A map that cannot be used is refused on all ranks, which go on."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        fine = cards([0.1] * group.size)
        for broken, told in (
            ("{}", "format: it is missing"),
            (cards([0.1] * (group.size + 1)), f"accepted: {group.size}, as the group has"),
        ):
            try:
                group.set_topology(broken if group.rank == 1 else fine)
            except holdfast.ConfigError as error:
                wanted = told if group.rank == 1 else "the map of links of rank 1 cannot be used"
                assert wanted in str(error), error
            else:
                raise AssertionError("taken")
            assert group.topology()["version"] == 0
        try:
            group.set_topology(None)
        except holdfast.ConfigError as error:
            assert "accepted: a map on one at least" in str(error)
        else:
            raise AssertionError("taken")
        for call in (group.refresh_topology, lambda: group.explain("all_reduce", 1)):
            try:
                call()
            except holdfast.ConfigError as error:
                assert "without a map of links" in str(error)
            else:
                raise AssertionError("no error")
        # A rank that claims a map of a TiB: nobody asks for so much memory.
        if group.rank == 1:
            group.all_reduce(np.array([0, 1 << 40, *[0] * (group.size - 2)], np.int64))
        else:
            try:
                group.set_topology(None)
            except holdfast.ConfigError as error:
                assert "the map of links of rank 1 cannot be used" in str(error)
            else:
                raise AssertionError("taken")
        group.set_topology(fine)
        run_all(group, everybody)
        group.barrier()


def lose_the_giver() -> None:
    """The rank that has the map is killed at some moment; all survivors go by the same one."""
    with holdfast.init() as group:
        giver = group.size - 1
        everybody = list(range(group.size))
        group.set_topology(cards([0.1] * group.size))
        run_all(group, everybody)
        if group.rank == giver:
            delay = float(os.environ["KILL_AFTER_S"])
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        versions = 1
        try:
            for _ in range(2000):
                text = cards([0.2] * group.size) if group.rank == giver else None
                group.set_topology(text)
                versions += 1
        except (holdfast.PeerLost, holdfast.ConfigError):
            pass
        survivors = [r for r in everybody if r != giver]
        known = np.zeros(group.size, np.int64)
        known[group.rank] = group.topology()["version"]
        assert known[group.rank] == versions
        group.all_reduce(known)
        assert len({int(known[r]) for r in survivors}) == 1, known
        array = own(group.rank, LARGE, np.float32)
        group.all_reduce(array)
        assert np.array_equal(array, total(survivors, LARGE, np.float32))
        assert algorithm_of_last_op(group) == "forest"
        group.barrier()


def come_back() -> None:
    """A rank dies after a map was taken; its successor is given the map with its view."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        born = Path(f"born-{group.rank}")
        again = born.exists()
        born.touch()
        if not again:
            group.set_topology(cards([0.1] * (group.size - 1) + [0.025]))
            run_all(group, everybody)
            if group.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        view = group.advance()
        while len(view.ranks) < group.size:
            view = group.advance()
        known = group.topology()
        assert (known["version"], known["source"]) == (1, "agreed")
        run_all(group, everybody)
        group.set_topology(cards([0.3] * group.size) if group.rank == 1 else None)
        assert group.topology()["version"] == 2
        run_all(group, everybody)
        group.barrier()


def measure_links() -> None:
    """Measure, agree, and go by it; the map and the time that it took are on the last line."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        start = time.monotonic()
        known = group.measure(float(os.environ.get("BUDGET", "3")))
        spent = time.monotonic() - start
        assert (known["version"], known["source"]) == (1, "agreed")
        array = own(group.rank, LARGE, np.float32)
        group.all_reduce(array)
        assert np.array_equal(array, total(everybody, LARGE, np.float32))
        group.barrier()
    print("MAP", json.dumps({"map": known["map"], "digest": known["digest"], "seconds": spent}))


def begin_measured() -> None:
    """Option measure: hosts have a map before the first op; one host alone does nothing for it."""
    with holdfast.init() as group:
        known = group.topology()
        if os.environ["HOSTS"] == "1":
            assert known["source"] == "none"
            assert group.flight()["ops"] == 0
            return
        assert (known["version"], known["source"]) == (1, "agreed")
        assert known["map"]["domains"] == [[f"host-{rank}"] for rank in range(group.size)]
        digests = np.zeros(group.size, np.uint64)
        digests[group.rank] = int(known["digest"], 16)
        group.all_reduce(digests)
        assert len(set(digests.tolist())) == 1
        group.barrier()


def begin_in_domains() -> None:
    """Option domain: algorithms of two levels go by sites, and a measured map names them."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        array = own(group.rank, LARGE, np.float32)
        group.all_reduce(array)
        assert np.array_equal(array, total(everybody, LARGE, np.float32))
        assert algorithm_of_last_op(group) == "two_level"
        known = group.measure(0.5)
        paths = [["b" if r % 2 else "a", f"rack-{r}", f"host-{r}"] for r in everybody]
        assert known["map"]["domains"] == paths
        run_blocks(group, everybody)
        group.barrier()


def come_back_to_what_was_measured() -> None:
    """A rank that comes back with the same option is given the map, and measures nothing."""
    born = Path(f"born-{os.environ['RANK']}")
    again = born.exists()
    born.touch()
    with holdfast.init() as group:
        if again:
            assert group.flight()["ops"] == 0
        elif group.rank == 1:
            assert group.topology()["version"] == 1
            # The others have the map when they have ended an op after it.
            group.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            group.barrier()
        view = group.advance()
        while len(view.ranks) < group.size:
            view = group.advance()
        known = group.topology()
        assert (known["version"], known["source"]) == (1, "agreed")
        run_blocks(group, list(range(group.size)))
        group.barrier()


def begin_measured_in_torch() -> None:
    """The world of torch measures; groups of some of its ranks do not."""
    import torch
    import torch.distributed as dist

    from holdfast import _process

    def versions() -> set[str]:
        lines = "\n".join(_process.metrics_texts()).splitlines()
        return {line for line in lines if line.startswith("holdfast_map_version")}

    meeting = f"file://{os.environ['MEETING_FILE']}"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("holdfast", init_method=meeting, rank=rank, world_size=size)
    # The map is taken by the runtime before the next op begins.
    dist.barrier()
    told = versions()
    assert len(told) == 1, told
    assert told.copy().pop().endswith(" 1")
    some = dist.new_group([0, 2])
    everybody = dist.new_group()
    for group in (some, everybody, None):
        if group is some and rank == 1:
            continue
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [float(2 if group is some else size)] * 3
    assert told <= versions()
    assert all(line.endswith(" 1") for line in versions())
    dist.destroy_process_group()


def lose_one_while_measuring() -> None:
    with holdfast.init() as group:
        if group.rank == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        known = group.measure(3.0)
        assert known["version"] == 1
        survivors = [r for r in range(group.size) if r != 1]
        digests = np.zeros(group.size, np.uint64)
        digests[group.rank] = int(known["digest"], 16)
        group.all_reduce(digests)
        assert len({int(digests[r]) for r in survivors}) == 1
        array = own(group.rank, LARGE, np.float32)
        group.all_reduce(array)
        assert np.array_equal(array, total(survivors, LARGE, np.float32))
        group.barrier()


def follow_traffic() -> None:
    """All_reduce until the map follows what a cable really does."""
    with holdfast.init() as group:
        everybody = list(range(group.size))
        group.set_topology(cards([0.095] * group.size))
        changes: list[str] = []
        start = time.monotonic()
        while time.monotonic() - start < 30:
            array = own(group.rank, LARGE, np.float32)
            group.all_reduce(array)
            assert np.array_equal(array, total(everybody, LARGE, np.float32))
            # Others may be blamed as well while the machine is busy.
            changes += group.refresh_topology()
            told = any("2" in change.split(":")[0] for change in changes)
            late = np.array([time.monotonic() - start > 30], np.int64)
            group.all_reduce(late, op="max")
            if told or late[0]:
                break
        spent = time.monotonic() - start
        group.barrier()
    print("MAP", json.dumps({"changes": changes, "seconds": spent}))
