"""A site of several ranks, each with a shard of the model, that takes part in outer steps as one.

Rank r of a site exchanges its shards with rank r of the others (`across`); what the ranks of a site
agree on among themselves (`within`) is in `inside`.
Why: docs/decisions/0182-a-site-is-a-group-of-shards.md
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from holdfast.comm.group import Group
from holdfast.compress.exchange import Exchange, ProcessGroupExchange
from holdfast.compress.group_exchange import GroupExchange
from holdfast.errors import ConfigError
from holdfast.ft.outer.inside import Inside


class Site:
    """The `group` of a trainer whose model is sharded over several ranks: FSDP2, HSDP, TP.

    Collective over `within`: all ranks of the site make it at the same place.

    Parameters
    ----------
    across : ProcessGroup, DeviceMesh, Group, Exchange, or a function that returns one
        Of the ranks that have the same shards, one of each site. A function is called when the
        ranks of this site have met. A site that comes and goes needs one, as its ranks come in one
        by one: ``lambda: holdfast.init(rank=site, size=sites, store=..., name=f"shard {shard}")``.
    within : ProcessGroup, DeviceMesh or Exchange
        Of the ranks of this site.

    Raises
    ------
    ConfigError
        For meshes of more than one dimension, for groups that have more than this rank in common,
        and for a group that has come in without the site's other ranks.
    """

    def __init__(self, across: Any, within: Any) -> None:
        if isinstance(across, Group) and across._native.is_newcomer:
            raise ConfigError(
                "across = a group that others have let this rank in alone; accepted: a function "
                "that returns it, which is called when all ranks of the site are there"
            )
        group = _group_of("within", within)
        ranks = _ranks_of(group)
        self.inside = Inside(_exchange(group), ranks, _device_of(group))
        """What the ranks of the site agree on among themselves."""
        self.across = _group_of("across", across() if callable(across) else across)
        """What the trainer exchanges over."""
        both = sorted(set(ranks or ()) & set(_ranks_of(self.across) or ()))
        if len(both) > 1:
            raise ConfigError(
                f"across and within have the ranks {both} in common; accepted: this rank alone, as "
                "of two dimensions of one device mesh"
            )


# What counts by members, and has no rule yet for members of several ranks.
_NOT_YET = {
    "global_batch": None,
    "pace": False,
    "inner_state": "fresh",
    "ledger": None,
    "grace_s": None,
}


def refuse_in_site(**given: object) -> None:
    """Refuse what trainers of a site cannot do yet.

    Parameters
    ----------
    given : object
        Arguments of a trainer, by name.

    Raises
    ------
    ConfigError
        For one that is not its default.
    """
    for name, value in given.items():
        if value != (default := _NOT_YET[name]):
            raise ConfigError(
                f"{name} = {value!r} with a Site; accepted: {default!r}; it counts by members, and "
                "a site's ranks would each have a part of their own"
            )


def _group_of(name: str, given: Any) -> Any:
    """Return a group, and of a device mesh that of its only dimension."""
    if not hasattr(given, "get_group") or not hasattr(given, "ndim"):
        return given
    if given.ndim != 1:
        raise ConfigError(
            f"{name} = a device mesh of {given.ndim} dimensions; accepted: one; take a dimension "
            "of it, mesh['site'], or flatten those that are inside the site"
        )
    return given.get_group()


def _ranks_of(group: Any) -> tuple[int, ...] | None:
    """Return a process group's ranks, as torch's default group numbers them."""
    if not isinstance(group, dist.ProcessGroup):
        return None
    return tuple(dist.get_process_group_ranks(group))


def _exchange(group: Any) -> Exchange:
    if isinstance(group, dist.ProcessGroup):
        return ProcessGroupExchange(group)
    if isinstance(group, Group):
        return GroupExchange(group)
    if all(hasattr(group, name) for name in ("gather", "rank", "size")):
        exchange: Exchange = group
        return exchange
    raise ConfigError(
        f"within = a {type(group).__name__}; accepted: a process group of this site's ranks, or a "
        "device mesh of one dimension"
    )


def _device_of(group: Any) -> torch.device:
    """Return where a group's small tensors are."""
    if isinstance(group, dist.ProcessGroup) and dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
