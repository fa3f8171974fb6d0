"""The part of a parameter that is here: a DTensor's local shard, by reference, or the whole tensor.

FSDP2, HSDP and tensor parallel keep parameters as DTensors; progress is exchanged shard by shard.
Why: docs/decisions/0182-a-site-is-a-group-of-shards.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from holdfast.errors import ConfigError


def is_sharded(tensor: torch.Tensor) -> bool:
    """Return whether it is a DTensor.

    Parameters
    ----------
    tensor : torch.Tensor
        Any.
    """
    return hasattr(tensor, "to_local")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what of a tensor is here, by reference and outside of autograd.

    Parameters
    ----------
    tensor : torch.Tensor
        A DTensor, or one that is whole here.
    """
    if not is_sharded(tensor):
        return tensor.detach()
    of: Any = tensor
    # With gradients on, a DTensor returns a view that autograd knows.
    with torch.no_grad():
        part: torch.Tensor = of.to_local()
    return part.detach()


def kind(tensor: torch.Tensor) -> str:
    """Return what of a tensor members must have alike, but for its values.

    Parameters
    ----------
    tensor : torch.Tensor
        A parameter.
    """
    text = f"{tuple(tensor.shape)} {tensor.dtype}"
    if not is_sharded(tensor):
        return text
    of: Any = tensor
    mesh = of.device_mesh
    # Meshes of other sites have other ranks; the place in the mesh is the same.
    place = mesh.get_coordinate()
    shape = tuple(local(tensor).shape)
    return f"{text} {of.placements} on {tuple(mesh.mesh.shape)} at {place}, {shape} here"


def refuse_partial(parameters: Mapping[str, torch.Tensor]) -> None:
    """Refuse DTensors whose local parts are no values of the parameter.

    Parameters
    ----------
    parameters : mapping of str to torch.Tensor
        By name.

    Raises
    ------
    ConfigError
        For a DTensor with a Partial placement.
    """
    for name, tensor in parameters.items():
        of: Any = tensor
        if is_sharded(tensor) and any(placed.is_partial() for placed in of.placements):
            raise ConfigError(
                f"parameter {name!r} is a DTensor with placements {of.placements}, whose local "
                "part is a term of a sum; accepted: Shard and Replicate; redistribute it first"
            )


def refuse_any(parameters: Mapping[str, torch.Tensor]) -> None:
    """Refuse DTensors, where there is no site.

    Parameters
    ----------
    parameters : mapping of str to torch.Tensor
        By name.

    Raises
    ------
    ConfigError
        For a DTensor.
    """
    for name, tensor in parameters.items():
        if is_sharded(tensor):
            raise ConfigError(
                f"parameter {name!r} is a DTensor, of which each rank has a part; accepted: "
                "group=holdfast.ft.Site(across, within), with a group of the ranks that have the "
                "same part in all sites, and one of this site's ranks"
            )


def refuse_beyond(parameters: Mapping[str, torch.Tensor], within: Sequence[int] | None) -> None:
    """Refuse DTensors that are spread over more than a site.

    Parameters
    ----------
    parameters : mapping of str to torch.Tensor
        By name.
    within : sequence of int or None
        Its ranks, as torch's default group numbers them; None: that does not know them.

    Raises
    ------
    ConfigError
        For a DTensor over other ranks.
    """
    for name, tensor in parameters.items():
        if within is None or not is_sharded(tensor):
            continue
        of: Any = tensor
        spread = sorted(int(rank) for rank in of.device_mesh.mesh.flatten())
        if not set(spread) <= set(within):
            raise ConfigError(
                f"parameter {name!r} is spread over the ranks {spread}, of which the site has "
                f"{sorted(within)}; accepted: device meshes inside the site; outer steps are what "
                "goes across"
            )


class Replicas:
    """What several ranks of a site have alike, as HSDP's replicas: all take the first one's mean.

    Parameters
    ----------
    parameters : sequence of torch.Tensor
        Of a fragment, in the order of its vector.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        # Of each group of replicas, the places in the vector; in one order on all its ranks.
        self._places: list[tuple[Any, list[slice]]] = []
        begin = 0
        for tensor in parameters:
            end = begin + local(tensor).numel()
            for group in _replicas_of(tensor):
                self._add(group, slice(begin, end))
            begin = end

    def _add(self, group: Any, place: slice) -> None:
        for known, places in self._places:
            if known is group:
                places.append(place)
                return
        self._places.append((group, [place]))

    def take_firsts(self, flat: torch.Tensor) -> None:
        """Overwrite what has replicas by what the first of them has; collective in the site.

        Each exchanges its own copy, so they have the same bits unless one of them lost a site on
        the way that another did not.

        Parameters
        ----------
        flat : torch.Tensor
            As `Flat.read` returns it.
        """
        for group, places in self._places:
            parts = torch.cat([flat[place] for place in places])
            dist.broadcast(parts, group=group, group_src=0)
            begin = 0
            for place in places:
                end = begin + place.stop - place.start
                flat[place].copy_(parts[begin:end])
                begin = end


def _replicas_of(tensor: torch.Tensor) -> list[Any]:
    if not is_sharded(tensor):
        return []
    of: Any = tensor
    mesh = of.device_mesh
    return [
        mesh.get_group(dim)
        for dim, placed in enumerate(of.placements)
        if placed.is_replicate() and mesh.size(dim) > 1
    ]
