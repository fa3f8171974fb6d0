"""Torch's device mesh in the order of a partition's levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from holdfast.topology.levels import Partition


def device_mesh(
    parts: Partition, device_type: str = "cpu", *, pg_options: Mapping[str, Any] | None = None
) -> DeviceMesh:
    """Make the mesh of a partition, with a process group for each level. All ranks call it.

    Parameters
    ----------
    parts : Partition
        Of all ranks of the default process group, which exists already.
    device_type : str
        As `torch.distributed.device_mesh.init_device_mesh` takes it.
    pg_options : mapping of str to options, optional
        By level: the options of its groups, such as ``{"site": holdfast.Options(codec="int8")}``.

    Returns
    -------
    torch.distributed.device_mesh.DeviceMesh
        Its dimensions have the names of the levels.

    Raises
    ------
    ConfigError
        For options of a level that there is not, and a partition of another number of ranks.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    options = dict(pg_options or {})
    for name in options:
        if name not in parts.names:
            raise ConfigError(f"options of level {name!r}; accepted: {', '.join(parts.names)}")
    if dist.get_world_size() != len(parts.order):
        raise ConfigError(
            f"the partition is of {len(parts.order)} ranks, the process group has "
            f"{dist.get_world_size()}; accepted: as many"
        )
    own = []
    for name in parts.names:
        for ranks in parts.groups(name):
            group = dist.new_group(list(ranks), pg_options=options.get(name), group_desc=name)
            if dist.get_rank() in ranks:
                own.append(group)
    mesh = torch.tensor(parts.order, dtype=torch.int).view(parts.shape)
    return DeviceMesh.from_group(own, device_type, mesh=mesh, mesh_dim_names=parts.names)
