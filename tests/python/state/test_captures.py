"""A state of one process: taken apart, copied, restored; what cannot be is refused by name."""

from __future__ import annotations

import copy
import ctypes
import itertools
import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from torch import nn  # noqa: E402
from torch.distributed.tensor import Partial, Replicate, Shard  # noqa: E402
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.compress.residuals import Residuals  # noqa: E402
from holdfast.errors import ConfigError, ProtocolError  # noqa: E402
from holdfast.ft.state.layout.capture import Capture  # noqa: E402
from holdfast.ft.state.layout.dtypes import ITEM_BYTES  # noqa: E402
from holdfast.ft.state.layout.flatten import flatten  # noqa: E402
from holdfast.ft.state.layout.head import Head  # noqa: E402
from holdfast.ft.state.layout.leaf import Part  # noqa: E402
from holdfast.ft.state.layout.load import load  # noqa: E402
from holdfast.ft.state.layout.local import Replica, intervals_of, replicas_of  # noqa: E402
from holdfast.ft.state.layout.plan import index  # noqa: E402
from holdfast.ft.state.layout.restore import Restore  # noqa: E402

Images = list[tuple[Head, bytes]]


def image(state: dict[str, Any], rank: int = 0, world: int = 1, **how: Any) -> tuple[Head, bytes]:
    capture = Capture(state, rank, world, **how)
    body = bytearray(capture.body_bytes)
    capture.copy(memoryview(body))
    return Head.from_bytes(capture.head("job", 1, 1).to_bytes()), bytes(body)


def restored(
    state: dict[str, Any], images: Images, rank: int = 0, world: int = 1, **how: Any
) -> None:
    others = how.pop("others", None)
    saved = index(head for head, _ in images)
    work = Restore(state, saved, rank, world, check=others is None)
    if others is not None:
        work.refuse_unknown(others)
    for reading in work.fill.readings:
        work.fill.put(reading.rank, reading.gather(images[reading.rank][1]))
    work.finish({r: images[r][1][at : at + n] for r, (at, n) in work.rests.items()})


def bits(value: Any) -> Any:
    """Something that is equal where all bits are."""
    if isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return str(value.dtype), tuple(value.shape), raw.numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    return value


class Loader:
    """Something with a position, as a loader has."""

    def __init__(self) -> None:
        self.position = 0
        self.order = torch.zeros(0, dtype=torch.int64)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "order": self.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.order = state["position"], state["order"]


def trained(seed: int, steps: int, kind: type = torch.optim.AdamW, **how: Any) -> dict[str, Any]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3, bias=False))
    optimizer = kind(net.parameters(), lr=0.1, **how)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(4, 5)).square().sum().backward()
        optimizer.step()
    return {"model": net, "optim": optimizer}


# ---- every dtype, every form ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(ITEM_BYTES))
def test_every_dtype_comes_back_in_every_form(dtype):
    kind = getattr(torch, dtype)
    raw = torch.randint(0, 2, (6 * 10 * ITEM_BYTES[dtype],), dtype=torch.uint8)
    full = raw.view(kind).reshape(6, 10)
    state = {
        "whole": full,
        "turned": full.t(),
        "every other": full[:, ::2],
        "scalar": full[3, 3].clone(),
        "none": full[:0],
    }
    wanted = bits(state)
    there = {name: torch.empty_like(tensor) for name, tensor in state.items()}
    restored(there, [image(state)])
    assert bits(there) == wanted


def test_conjugates_and_inference_tensors_are_saved_as_they_read():
    values = torch.randn(3, 4, dtype=torch.complex64)
    with torch.inference_mode():
        inferred = torch.ones(5)
    there = {"c": torch.zeros(3, 4, dtype=torch.complex64), "i": torch.zeros(5)}
    restored(there, [image({"c": values.conj(), "i": inferred})])
    assert torch.equal(there["c"], values.conj().resolve_conj())
    assert torch.equal(there["i"], torch.ones(5))


def test_a_keeper_that_reads_the_pointers_and_a_copy_of_the_rest_have_the_whole_body():
    state = {"a": torch.randn(100), "b": torch.randn(9, 4).t(), "c": torch.tensor(3.0)}
    capture = Capture(state, 0, 1)
    by_hand = bytearray(capture.body_bytes)
    capture.copy(memoryview(by_hand), only=capture.rest)
    pointers = capture.pointers()
    assert len(pointers) == 2
    for address, nbytes, at in pointers:
        by_hand[at : at + nbytes] = ctypes.string_at(address, nbytes)
    assert bytes(by_hand) == image(state)[1]
    with pytest.raises(ConfigError, match=f"at least {capture.body_bytes}"):
        capture.copy(memoryview(bytearray(3)))


def test_a_tensor_that_is_written_meanwhile_is_named():
    state = {**trained(1, 1), "more": torch.ones(3)}
    capture = Capture(state, 0, 1)
    assert capture.moved() == []
    state["more"].add_(1)
    assert capture.moved() == ["more"]
    versions = capture.versions()
    state["optim"].step()
    assert len(capture.moved(versions)) == 5 * 4


def test_what_forward_writes_is_to_be_copied_first():
    state = {**trained(1, 1), "more": torch.ones(3), "data": Loader()}
    capture = Capture(state, 0, 1)
    early = {capture.sources[k].entry.name for k in capture.early}
    written = {"num_batches_tracked", "running_mean", "running_var"}
    assert early == {"more", "rank/0/data/order", *(f"model/1.{name}" for name in written)}


def test_a_capture_that_is_renewed_is_the_one_that_is_made_anew():
    loader = Loader()
    state = {**trained(1, 1), "rng": ft.rng(), "data": loader, "more": [torch.ones(3), 1]}
    state["schedule"] = torch.optim.lr_scheduler.StepLR(state["optim"], 1)
    last = Capture(state, 1, 3)

    def check(is_quick: bool) -> None:
        nonlocal last
        new, anew = last.renewed(state), Capture(state, 1, 3)
        assert new.head("j", 1, 1) == anew.head("j", 1, 1)
        assert new.early == anew.early
        assert (new._steady is last._steady) == is_quick
        bodies = [bytearray(each.body_bytes) for each in (new, anew)]
        for each, body in zip((new, anew), bodies, strict=True):
            each.copy(memoryview(body))
            assert each.moved() == []
        assert bodies[0] == bodies[1]
        last = new

    check(True)
    step_all(state, 2)
    state["schedule"].step()
    state["more"][1] = 7
    loader.position, loader.order = 3, torch.ones(0, dtype=torch.int64)
    check(True)
    loader.order = torch.arange(4)
    check(False)
    loader.order = torch.arange(4) * 2
    check(True)
    state["optim"].load_state_dict(copy.deepcopy(state["optim"].state_dict()))
    check(False)
    state["model"][0].weight.data = torch.randn(7, 5)
    check(False)
    state["model"].append(nn.Linear(2, 2))
    check(False)
    state["model"][1].running_mean = torch.randn(7)
    check(False)
    state["new"] = 3
    check(False)
    check(True)


# ---- modules, optimisers, others -----------------------------------------------------------------

OPTIMIZERS = [
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"amsgrad": True, "fused": True}),
    (torch.optim.SGD, {"momentum": 0.9}),
    (torch.optim.Adafactor, {}),
    (torch.optim.Adam, {"lr": torch.tensor(0.1), "capturable": False, "foreach": False}),
]


@pytest.mark.parametrize(("kind", "how"), OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 1])
def test_an_optimizer_goes_on_with_the_same_bits_whether_its_state_is_made_or_not(kind, how, steps):
    def made(seed: int, count: int) -> dict[str, Any]:
        options = copy.deepcopy(how)
        if "lr" not in options:
            return trained(seed, count, kind, **options)
        rate = options.pop("lr")
        state = trained(seed, 0, kind, **options)
        state["optim"] = kind(state["model"].parameters(), lr=rate, **options)
        return state

    one, other = made(1, 3), made(2, steps)
    step_all(one, 2)
    restored(other, [image(one)])
    for part in ("model", "optim"):
        assert bits(one[part].state_dict()) == bits(other[part].state_dict())
    for state in (one, other):
        step_all(state, 3)
    assert bits(one["model"].state_dict()) == bits(other["model"].state_dict())


def step_all(state: dict[str, Any], steps: int) -> None:
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        state["optim"].zero_grad()
        state["model"](torch.randn(4, 5, generator=generator)).square().sum().backward()
        state["optim"].step()


def test_a_state_that_was_not_made_yet_is_not_made_afterwards():
    one, other = trained(1, 0), trained(2, 2)
    restored(other, [image(one)])
    assert bits(one["optim"].state_dict()) == bits(other["optim"].state_dict())
    assert not other["optim"].state


def test_state_that_came_for_a_parameter_that_this_ranks_rest_has_not_is_its():
    net = nn.Linear(2, 3)
    optimizer = torch.optim.SGD([{"params": [p]} for p in (net.weight, net.bias)], lr=0.1)
    groups = [{"lr": 0.1, "params": [name]} for name in ("a/b", "a")]
    rest = {"optim": Part("optimizer", {"state": {}, "param_groups": groups, "extra": {}})}
    names = {id(net.weight): "a/b", id(net.bias): "a"}
    paths = ("a%2Fb/first", "a%2Fb/more/second", "a/first")
    made = {f"optim/state/{path}": torch.full((1,), i) for i, path in enumerate(paths)}
    load({"optim": optimizer}, rest, names, {**made, "optim/statement": torch.ones(1)})
    assert bits(optimizer.state[net.weight]) == bits(
        {"first": torch.tensor([0]), "more": {"second": torch.tensor([1])}}
    )
    assert bits(optimizer.state[net.bias]) == bits({"first": torch.tensor([2])})


def test_state_of_another_dtype_than_its_parameter_keeps_its_bits():
    one, other = trained(1, 1), trained(2, 0)
    for state in (one, other):
        state["model"].bfloat16()
    for kept in one["optim"].state.values():
        kept["exp_avg"] = torch.randn_like(kept["exp_avg"], dtype=torch.float32)
    restored(other, [image(one)])
    assert bits(one["optim"].state_dict()) == bits(other["optim"].state_dict())


def test_two_models_with_one_optimizer_each_and_containers_of_them():
    def made(seed: int) -> dict[str, Any]:
        return {"nets": [trained(seed, 1), trained(seed + 1, 2)], "n": (1, torch.ones(2) * seed)}

    one, other = made(1), made(7)
    restored(other, [image(one)])
    for a, b in zip(one["nets"], other["nets"], strict=True):
        assert bits(a["model"].state_dict()) == bits(b["model"].state_dict())
        assert bits(a["optim"].state_dict()) == bits(b["optim"].state_dict())
    assert bits(one["n"]) == bits(other["n"])


def test_tied_weights_are_saved_once():
    def made() -> nn.Module:
        net = nn.ModuleDict({"a": nn.Embedding(11, 4), "b": nn.Linear(4, 11, bias=False)})
        net["b"].weight = net["a"].weight
        return net

    one, other = made(), made()
    saved = image({"model": one})
    assert [entry.name for entry in saved[0].entries] == ["model/a.weight"]
    restored({"model": other}, [saved])
    assert torch.equal(one["b"].weight, other["b"].weight)
    assert other["a"].weight is other["b"].weight


class Counted(nn.Linear):
    """A module with an extra state."""

    seen = 0

    def get_extra_state(self) -> Any:
        return {"seen": self.seen}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]


def test_extra_states_sparse_tensors_and_plain_values_are_restored():
    def made(k: int) -> dict[str, Any]:
        net = nn.Sequential(Counted(2, 2), Counted(2, 2))
        net[1].seen = k
        sparse = torch.eye(3).mul(k).to_sparse()
        return {"model": net, "sparse": sparse, "names": {"run": f"a{k}", "k": [k, None]}}

    one, other = made(5), made(6)
    restored(other, [image(one)])
    assert other["model"][1].seen == 5
    assert torch.equal(other["sparse"].to_dense(), torch.eye(3) * 5)
    assert other["names"] == {"run": "a5", "k": [5, None]}


def test_generators_and_loaders_are_each_ranks_own():
    images = []
    drawn = []
    for rank in range(3):
        torch.manual_seed(rank)
        np.random.seed(rank)
        random.seed(rank)
        loader = Loader()
        loader.position, loader.order = rank + 10, torch.arange(rank + 2)
        images.append(image({"data": loader, "rng": ft.rng()}, rank, 3))
        drawn.append((float(torch.rand(())), np.random.rand(), random.random()))
    for world in (1, 2, 3, 5):
        for rank in range(world):
            loader = Loader()
            restored({"data": loader, "rng": ft.rng()}, images, rank, world)
            assert (loader.position, len(loader.order)) == (rank % 3 + 10, rank % 3 + 2)
            assert (float(torch.rand(())), np.random.rand(), random.random()) == drawn[rank % 3]
    with pytest.raises(ConfigError, match="accepted:"):
        ft.rng().load_state_dict({})


# ---- ranks that differ ---------------------------------------------------------------------------


def test_replicas_share_what_is_large_and_take_turns_with_what_is_small():
    state = {"large": torch.randn(1 << 16), **{f"small{k}": torch.randn(9) for k in range(60)}}
    images = [image(state, rank, 4) for rank in range(4)]
    for head, _ in images:
        sizes = [entry.nbytes for entry in head.entries if entry.name == "large"]
        assert sizes == [(1 << 16)]
        assert 3 < len(head.entries) < 40
    there = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    restored(there, images, 1, 2)
    assert bits(there) == bits(state)


def test_what_only_some_ranks_have_and_what_differs_in_shape_is_saved_and_comes_back():
    states = [
        {"all": torch.ones(3), "first": torch.arange(4), "mine": torch.ones(2)},
        {"all": torch.ones(3), "mine": torch.ones(5) * 7},
    ]
    kinds = [{n: (str(t.dtype)[6:], tuple(t.shape)) for n, t in state.items()} for state in states]
    images = []
    for rank, state in enumerate(states):
        replicas = replicas_of(kinds, rank)
        assert set(replicas) == set(state) - {"mine"}
        images.append(image(state, rank, 2, replicas=replicas))
    assert replicas_of(kinds, 0)["first"] == Replica(0, 1)
    assert {e.name for head, _ in images for e in head.entries} >= {"rank/0/mine", "rank/1/mine"}
    there = {"all": torch.zeros(3), "mine": torch.zeros(5)}
    restored(there, images, 1, 2, others=["first"])
    assert bits(there) == bits(states[1])
    with pytest.raises(ConfigError, match="it has a tensor 'first', which is not here"):
        restored(there, images, 1, 2)


class Compressed:
    """Something that owes, as a reducer does."""

    def __init__(self, rank: int, world: int) -> None:
        self.residuals = Residuals()
        values = torch.arange(6.0) + 10**rank
        self.residuals._kept = {"w/worker": values, "w/server": torch.arange(3.0) + 10**rank}
        self.residuals._spread = {"w/server": (rank * 3, 3 * world, world)}

    def state_dict(self) -> dict[str, Any]:
        return {"residuals": self.residuals.state_dict(), "step": 3}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.residuals.load_state_dict(state["residuals"])


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5, 9])
def test_what_ranks_owe_has_the_same_sum_in_every_world(world):
    images = [image({"reducer": Compressed(rank, 4)}, rank, 4) for rank in range(4)]
    worker, server = torch.zeros(6), torch.zeros(12)
    for rank in range(world):
        reducer = Compressed(8, 4)
        restored({"reducer": reducer}, images, rank, world)
        kept = reducer.residuals.peek("w/worker")
        worker += torch.zeros(6) if kept is None else kept
        part = reducer.residuals.peek("w/server")
        # Every member knows the vector, so that all of them put it together.
        start, total, _ = reducer.residuals._spread["w/server"]
        assert total == 12
        if part is not None:
            there = min(part.numel(), total - start)
            server[start : start + there] += part[:there]
    assert torch.equal(worker, torch.arange(6.0) * 4 + 1111)
    whole = [torch.arange(3.0) + 10**rank for rank in range(4)]
    assert torch.equal(server, torch.cat(whole))


class Trainer:
    """Something that keeps the parts of all its members, as outer trainers do."""

    def __init__(self, rank: int, members: int) -> None:
        self.own = {str(rank): {"residual/a": torch.ones(2) * rank}}
        self.members = [*range(members)]

    def state_dict(self) -> dict[str, Any]:
        return {"own": self.own, "members": self.members, "shared": {"w": torch.ones(3)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.own, self.members = state["own"], state["members"]


def test_an_outer_trainer_gets_the_parts_of_members_that_are_gone():
    images = [image({"trainer": Trainer(rank, 4)}, rank, 4) for rank in range(4)]
    for rank, parts in ((0, ["0", "3"]), (1, ["1"]), (2, ["2"])):
        trainer = Trainer(9, 3)
        restored({"trainer": trainer}, images, rank, 3)
        assert sorted(trainer.own) == parts
        assert trainer.members == [0, 1, 2, 3]
        for name, part in trainer.own.items():
            assert torch.equal(part["residual/a"], torch.ones(2) * int(name))
    newcomer = Trainer(9, 5)
    restored({"trainer": newcomer}, images, 4, 5)
    assert newcomer.own == {}


# ---- placements ----------------------------------------------------------------------------------


def test_intervals_of_placements_are_those_that_torch_cuts():
    for length, a, b in itertools.product((0, 1, 5, 7, 12, 13), (1, 2, 3), (1, 2, 4)):
        for first in (Shard(0), _StridedShard(0, split_factor=b), Replicate()):
            for second in (Shard(0), Replicate()):
                parts = [torch.arange(length)] * a
                if not isinstance(first, Replicate):
                    parts, _ = first._split_tensor(parts[0], a, with_padding=False)
                for i, j in itertools.product(range(a), range(b)):
                    cut = parts[i]
                    if isinstance(second, Shard):
                        cut = second._split_tensor(cut, b, with_padding=False)[0][j]
                    (axis,), replica = intervals_of("t", (length,), (first, second), (a, b), (i, j))
                    ours = [k for start, count in axis for k in range(start, start + count)]
                    assert ours == cut.tolist(), (length, a, b, first, second)
                    copies = [p for p in (first, second) if isinstance(p, Replicate)]
                    assert (replica.count > 1) <= bool(copies)
    with pytest.raises(ConfigError, match=r"'t': placement .*sum that nobody has.*redistribute"):
        intervals_of("t", (3,), (Partial(),), (2,), (0,))


# ---- what is refused -----------------------------------------------------------------------------


def test_another_models_state_is_refused_with_the_first_difference_and_nothing_is_written():
    saved = [image(trained(1, 1))]
    wider = {"model": nn.Sequential(nn.Linear(5, 8)), "optim": None}
    before = bits(wider["model"].state_dict())
    words = r"'model/0.weight' is float32, \[7, 5\] there and float32, \[8, 5\] here"
    with pytest.raises(ConfigError, match=words):
        restored(wider, saved)
    more = trained(1, 0)
    more["model"].append(nn.Linear(3, 3))
    with pytest.raises(ConfigError, match=r"it has no tensor 'model/3.weight'"):
        restored(more, saved)
    fewer = {"model": trained(1, 0)["model"]}
    with pytest.raises(ConfigError, match=r"it has a tensor 'optim/state/0\.bias/exp_avg'"):
        restored(fewer, saved)
    swapped = trained(1, 0)
    swapped["model"].half()
    with pytest.raises(ConfigError, match=r"is float32, .* there and float16"):
        restored(swapped, saved)
    assert bits(wider["model"].state_dict()) == before


def test_what_cannot_be_saved_is_refused_by_its_path():
    with pytest.raises(ConfigError, match=r"'a/b': a tensor of device meta"):
        flatten({"a": {"b": torch.empty(3, device="meta")}})
    with pytest.raises(ConfigError, match=r"state 'a/f': .*accepted: what pickle takes"):
        Capture({"a": {"f": lambda: 0}}, 0, 1)
    deep: dict[str, Any] = {}
    deep["again"] = deep
    with pytest.raises(ConfigError, match="containers within containers"):
        flatten(deep)


def test_bytes_that_have_not_come_or_are_too_few_are_refused():
    saved = image({"a": torch.ones(5)})
    work = Restore({"a": torch.zeros(5)}, index([saved[0]]), 0, 1)
    with pytest.raises(ProtocolError, match=r"ranks \[0\] have not come"):
        work.finish({})
    with pytest.raises(ProtocolError, match="3 bytes came; accepted: 20"):
        work.fill.put(0, b"abc")
    with pytest.raises(ProtocolError, match="rank 0's body has 19 bytes; accepted: 20"):
        work.fill.put_body(0, bytes(19))
    work.fill.put(0, work.fill.readings[0].gather(saved[1]))
    with pytest.raises(ProtocolError, match="rest of rank 0's image is damaged"):
        work.finish({0: b"abc"})


def test_keys_with_separators_and_numbers_do_not_meet():
    state = {"a/b": torch.ones(1), "a": {"b": torch.ones(2), 1: torch.ones(3), "1": torch.ones(4)}}
    names = {entry.name: entry.count for entry in image(state)[0].entries}
    assert names == {"a%2Fb": 1, "a/b": 2, "a/=1": 3, "a/1": 4}
