"""Where a rank's local tensors belong: boxes of global tensors, and whose part they are.

A DTensor's placements are read from the left: what a mesh dimension shards is cut as torch.chunk
cuts, and a strided shard cuts each of `split_factor` chunks so. Local indices are intervals of
global ones, by dimension; their products are boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import xxhash
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from holdfast.errors import ConfigError
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.flatten import Flat

Intervals = list[tuple[int, int]]
# Replicas share a box in parts of at least so many bytes: an entry is worth a hundred.
_MIN_PART = 64 << 10


@dataclass(frozen=True, slots=True)
class Replica:
    """Which of several ranks with the same elements this one is.

    Parameters
    ----------
    index, count : int
        From zero, and how many there are.
    """

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Local:
    """A local tensor, described.

    Parameters
    ----------
    name, dtype : str
        As in an entry.
    shape : tuple of int
        Of the global tensor.
    tensor : torch.Tensor
        The bytes; no DTensor.
    boxes : tuple of Box
        Of the global tensor, in the order of `views`.
    views : tuple of torch.Tensor
        The part of the local tensor that each box is.
    replica : Replica
        Who else has these boxes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    tensor: torch.Tensor
    boxes: tuple[Box, ...]
    views: tuple[torch.Tensor, ...]
    replica: Replica


Kinds = Mapping[str, tuple[str, tuple[int, ...]]]


def kinds_of(flat: Flat) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return dtype and shape of a rank's plain shared tensors, for all ranks to compare.

    Parameters
    ----------
    flat : Flat
        This rank's state.
    """
    return {
        name: (str(tensor.dtype)[6:], tuple(tensor.shape))
        for name, tensor in flat.tensors.items()
        if name not in flat.own and not isinstance(tensor, DTensor)
    }


def replicas_of(kinds: Sequence[Kinds], rank: int) -> dict[str, Replica]:
    """Return whose copy of each plain tensor is which; a pure function of what all ranks have.

    Parameters
    ----------
    kinds : sequence of mapping
        By rank, what `kinds_of` returned there.
    rank : int
        This one.

    Returns
    -------
    dict of str to Replica
        By name; without tensors that differ in shape or dtype from another rank's, which are this
        rank's own.
    """
    found = {}
    for name, kind in kinds[rank].items():
        having = [r for r, theirs in enumerate(kinds) if name in theirs]
        if all(kinds[r][name] == kind for r in having):
            found[name] = Replica(having.index(rank), len(having))
    return found


def describe(
    flat: Flat, rank: int, world: int, replicas: Mapping[str, Replica] | None = None
) -> list[Local]:
    """Describe a rank's tensors.

    Parameters
    ----------
    flat : Flat
        Its state.
    rank, world : int
        This rank, and how many there are.
    replicas : mapping of str to Replica, optional
        Of plain tensors, as `replicas_of` returned; one that is not there is this rank's own.
        Default: all ranks have all of them.

    Raises
    ------
    ConfigError
        For a DTensor that is a partial sum, or of a layout that is unknown.
    """
    found = []
    for name, tensor in flat.tensors.items():
        if isinstance(tensor, DTensor):
            found.append(of_dtensor(name, tensor))
            continue
        replica = Replica(rank, world) if replicas is None else replicas.get(name)
        if name in flat.own or replica is None:
            flat.own.add(name)
            replica = Replica(0, 1)
        found.append(of_plain(flat.stored(name, rank), tensor, replica))
    return found


def of_plain(name: str, tensor: torch.Tensor, replica: Replica) -> Local:
    """Describe a tensor of which a rank has all.

    Parameters
    ----------
    name : str
        In heads.
    tensor : torch.Tensor
        Itself.
    replica : Replica
        Which copy it is.
    """
    tensor = tensor.detach()
    shape = tuple(tensor.shape)
    box = Box(tuple(0 for _ in shape), shape)
    return Local(name, str(tensor.dtype)[6:], shape, tensor, (box,), (tensor,), replica)


def of_dtensor(name: str, tensor: DTensor) -> Local:
    """Describe a DTensor's local part.

    Parameters
    ----------
    name : str
        In heads.
    tensor : DTensor
        Itself.

    Raises
    ------
    ConfigError
        For a partial sum, or a layout that is unknown.
    """
    mesh = tensor.device_mesh
    local = tensor._local_tensor.detach()
    shape = tuple(tensor.shape)
    dtype = str(local.dtype)[6:]
    if dtype not in ITEM_BYTES:
        raise ConfigError(f"state {name!r}: dtype {dtype}; accepted: {', '.join(ITEM_BYTES)}")
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return Local(name, dtype, shape, local, (), (), Replica(0, 1))
    sizes = tuple(mesh.shape)
    axes, replica = intervals_of(name, shape, tensor.placements, sizes, tuple(coordinate))
    lengths = tuple(sum(length for _, length in axis) for axis in axes)
    if lengths != tuple(local.shape):
        raise ConfigError(
            f"state {name!r}: placements {tensor.placements} of {[*shape]} over a mesh of "
            f"{[*sizes]} give {[*lengths]} here, and the local tensor is {[*local.shape]}; "
            "accepted: shards as torch.chunk cuts them"
        )
    boxes, views = [], []
    if local.numel() or not math.prod(shape):
        for parts in itertools.product(*[_placed(axis) for axis in axes]):
            boxes.append(Box(tuple(p[0] for p in parts), tuple(p[1] for p in parts)))
            view = local
            for k, (_, length, at) in enumerate(parts):
                view = view.narrow(k, at, length)
            views.append(view)
    return Local(name, dtype, shape, local, tuple(boxes), tuple(views), replica)


def intervals_of(
    name: str,
    shape: tuple[int, ...],
    placements: Sequence[Placement],
    mesh: tuple[int, ...],
    coordinate: tuple[int, ...],
) -> tuple[list[Intervals], Replica]:
    """Return which global indices a place in a mesh has, and which replica it is.

    Parameters
    ----------
    name : str
        The tensor's, for messages.
    shape : tuple of int
        Global.
    placements : sequence of Placement
        One for each dimension of the mesh.
    mesh, coordinate : tuple of int
        Its size, and the place.

    Returns
    -------
    tuple of list of list and Replica
        For each dimension of the tensor, intervals (start, length) in local order.

    Raises
    ------
    ConfigError
        For a placement that is neither a shard nor a copy.
    """
    axes: list[Intervals] = [[(0, length)] for length in shape]
    index, count = 0, 1
    for placement, ways, at in zip(placements, mesh, coordinate, strict=True):
        if isinstance(placement, _StridedShard):
            axis = axes[placement.dim]
            whole = sum(length for _, length in axis)
            axes[placement.dim] = [
                part
                for start, stop in _chunks(whole, int(placement.split_factor))
                for part in _cut(_cut(axis, start, stop), *_chunk(stop - start, ways, at))
            ]
        elif isinstance(placement, Shard):
            whole = sum(length for _, length in axes[placement.dim])
            axes[placement.dim] = _cut(axes[placement.dim], *_chunk(whole, ways, at))
        elif isinstance(placement, Replicate):
            index, count = index * ways + at, count * ways
        else:
            raise ConfigError(
                f"state {name!r}: placement {placement} is a part of a sum that nobody has; "
                "accepted: Shard and Replicate; call redistribute() with one of them before"
            )
    return axes, Replica(index, count)


def _chunk(length: int, ways: int, at: int) -> tuple[int, int]:
    size = -(-length // ways)
    return min(length, at * size), min(length, (at + 1) * size)


def _chunks(length: int, ways: int) -> list[tuple[int, int]]:
    return [_chunk(length, ways, at) for at in range(ways)]


def _cut(axis: Intervals, start: int, stop: int) -> Intervals:
    """Return the part of intervals between two local indices, neighbours joined."""
    found: Intervals = []
    at = 0
    for begin, length in axis:
        low, high = max(start, at), min(stop, at + length)
        if low < high:
            first = begin + low - at
            if found and sum(found[-1]) == first:
                found[-1] = (found[-1][0], found[-1][1] + high - low)
            else:
                found.append((first, high - low))
        at += length
    return found


def _placed(axis: Intervals) -> list[tuple[int, int, int]]:
    """Return intervals with where they are locally; joined where they touch."""
    found: list[tuple[int, int, int]] = []
    at = 0
    for start, length in axis:
        if found and found[-1][0] + found[-1][1] == start:
            found[-1] = (found[-1][0], found[-1][1] + length, found[-1][2])
        else:
            found.append((start, length, at))
        at += length
    return found


def parts_of(local: Local) -> list[tuple[int, int, int]]:
    """Return what a replica saves of its boxes.

    Small boxes have one part, and a hash of the name says whose it is, so that no rank has all of
    them; larger ones are shared.

    Parameters
    ----------
    local : Local
        The tensor.

    Returns
    -------
    list of tuple of int
        Which box, the first of its elements, and how many.
    """
    found = []
    item = ITEM_BYTES[local.dtype]
    turn = xxhash.xxh3_64_intdigest(local.name.encode())
    for number, box in enumerate(local.boxes):
        parts = min(local.replica.count, max(1, -(-box.count * item // _MIN_PART)))
        mine = (local.replica.index - turn) % local.replica.count
        if mine < parts:
            first = box.count * mine // parts
            found.append((number, first, box.count * (mine + 1) // parts - first))
    return found
