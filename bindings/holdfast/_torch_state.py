"""State of torch objects, made the same on all ranks of a process group."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import xxhash

from holdfast import _process
from holdfast._torch_calls import on_hole
from holdfast.comm.state import sync as shared
from holdfast.comm.state.messages import TAG, descriptions
from holdfast.errors import ConfigError, ProtocolError
from holdfast.torch import outcome

# The last one that torch's messages may have.
_TAG = TAG - 1


class _Messages:
    """The collectives of a sync over a process group."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)

    def gather(self, mine: bytes) -> dict[int, bytes]:
        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        rows = [torch.empty_like(own) for _ in range(self._size)]
        # Who is there is what it asks.
        with on_hole("zero", self._group):
            work = dist.all_gather(rows, own, group=self._group, async_op=True)
        assert work is not None
        work.wait()
        return {rank: rows[rank].numpy().tobytes() for rank in outcome(work).contributors}

    def send(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        tensor = _bytes(address, size, owner)
        work = dist.isend(tensor, group=self._group, group_dst=peer, tag=_TAG)
        assert work is not None
        return work.wait

    def recv(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        tensor = _bytes(address, size, owner)
        work = dist.irecv(tensor, group=self._group, group_src=peer, tag=_TAG)
        assert work is not None
        return work.wait


def _bytes(address: int, size: int, owner: object) -> torch.Tensor:
    buffer: Any = (ctypes.c_char * size).from_address(address)
    buffer.owner = owner  # lives as long as the tensor does
    return torch.frombuffer(buffer, dtype=torch.uint8)


class _Skeleton:
    """What is left of a state without the contents of its tensors; JSON, exact."""

    def __init__(self, states: Sequence[Any]) -> None:
        self.tensors: list[torch.Tensor] = []
        tree = [self._write(state, f"object {i}") for i, state in enumerate(states)]
        shapes = [[str(t.dtype), list(t.shape)] for t in self.tensors]
        self.text = json.dumps([tree, shapes]).encode()

    def _write(self, value: Any, where: str) -> Any:
        if isinstance(value, torch.Tensor):
            _refuse_placed(value, where)
            self.tensors.append(value)
            return {"t": len(self.tensors) - 1}
        if isinstance(value, dict):
            items = [
                [self._write(k, where), self._write(v, f"{where}[{k!r}]")] for k, v in value.items()
            ]
            return {"d": items}
        if isinstance(value, list | tuple):
            items = [self._write(v, f"{where}[{i}]") for i, v in enumerate(value)]
            return {"l" if isinstance(value, list) else "u": items}
        if isinstance(value, float):
            return {"f": value.hex()}
        if value is None or isinstance(value, bool | int | str):
            return value
        raise ConfigError(
            f"sync: {where} is a {type(value).__name__}; accepted: tensors, numbers, texts, None, "
            "and lists, tuples and dictionaries of them"
        )


def _refuse_placed(tensor: Any, where: str) -> None:
    """Refuse a DTensor: what a rank has of it need not be what the others have."""
    # No import: whoever passes one has it.
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or not isinstance(tensor, module.DTensor):
        return
    if all(placement.is_replicate() for placement in tensor.placements):
        does = "pass a dictionary with its local part, to_local(), which is written in place"
    else:
        does = (
            "every rank has another part of it, and there is nothing to vote on: save and load it "
            "with torch.distributed.checkpoint; ranks that have the same part, as the replicas of "
            "HSDP, may sync a dictionary of local parts, to_local(), over a group of their own"
        )
    raise ConfigError(
        f"sync: {where} is a DTensor placed as {tuple(tensor.placements)}; accepted: tensors that "
        f"every rank has whole; {does}"
    )


def _read(node: Any, tensors: list[torch.Tensor]) -> Any:
    if not isinstance(node, dict):
        return node
    ((kind, value),) = node.items()
    if kind == "t":
        return tensors[value]
    if kind == "d":
        return {_read(k, tensors): _read(v, tensors) for k, v in value}
    if kind == "f":
        return float.fromhex(value)
    items = [_read(v, tensors) for v in value]
    return items if kind == "l" else tuple(items)


def _empty(dtype: str, shape: list[int]) -> torch.Tensor:
    kind = getattr(torch, dtype.removeprefix("torch."), None)
    if not isinstance(kind, torch.dtype):
        raise ProtocolError(f"sync: another rank has tensors of {dtype!r}; this torch has no such")
    return torch.empty(shape, dtype=kind)


def _state(thing: Any) -> Any:
    if isinstance(thing, dict):
        return thing
    if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
        return thing.state_dict()
    raise ConfigError(
        f"sync: a {type(thing).__name__}; accepted: objects with state_dict() and "
        "load_state_dict(), and dictionaries"
    )


def sync(objects: Sequence[Any], group: Any, backend: Any) -> shared.SyncReport:
    """Make the objects the same on all ranks; see :func:`holdfast.sync`.

    Parameters
    ----------
    objects : sequence of objects
        Modules, optimisers, schedulers, dictionaries.
    group : ProcessGroup, optional
        Default: the world.
    backend : HoldfastBackend
        The group's.

    Returns
    -------
    SyncReport
        What was done here.
    """
    messages = _Messages(group)
    label = f"process group, rank {messages.rank} of {dist.get_world_size(group)}"
    made: list[_Skeleton] = []

    def describe() -> bytes:
        made.append(_Skeleton([_state(thing) for thing in objects]))
        return bytes([backend.is_fresh]) + made[0].text

    told = descriptions(messages, label, describe)
    (mine,) = made
    ballots = {
        rank: (text[0] == 1, xxhash.xxh3_128_digest(text[1:])) for rank, text in told.items()
    }
    elected = shared.elect(ballots)
    chosen = next(t[1:] for rank, t in sorted(told.items()) if ballots[rank][1] == elected)
    tree, shapes = json.loads(chosen)
    same = chosen == mine.text
    tensors = mine.tensors if same else [_empty(*shape) for shape in shapes]
    state = {str(i): tensor for i, tensor in enumerate(tensors)}
    # Opens GPUs, where there are tensors on any.
    node = _process.node() if any(t.device.type == "cuda" for t in tensors) else None
    under_way = shared.Sync(
        messages, state, label, newcomer=backend.is_fresh or not same, node=node
    )
    under_way.finish()
    if not same:
        for thing, node in zip(objects, tree, strict=True):
            if isinstance(thing, dict):
                thing.update(_read(node, tensors))
            else:
                thing.load_state_dict(_read(node, tensors))
    backend.is_fresh = False
    return under_way.report
