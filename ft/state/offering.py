"""What a trainer that has lost a peer gives the others: its replicas' part of the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from holdfast.ft.state.keeper.memory import Region
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.capture import sources_of, write
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.head import Head
from holdfast.ft.state.layout.local import Replica, describe
from holdfast.ft.state.members import Members

_ALL_OF_IT = Replica(0, 1)


@torch.no_grad()
def offer(
    state: Mapping[str, Any],
    who: Members,
    replicas: Mapping[str, Replica] | None,
    told: tuple[str, int, int],
) -> tuple[Message, Region] | None:
    """Copy what other ranks may have as well: parameters and optimisers' state, all of this rank's.

    Parameters
    ----------
    state : mapping of str to object
        As it was when the snapshot was taken.
    who : Members
        All trainers.
    replicas : mapping of str to Replica, optional
        As for `describe`.
    told : tuple of (str, int, int)
        Job, step and epoch of the snapshot.

    Returns
    -------
    tuple of Message and Region, optional
        For the keeper; the region is to be closed when it is sent. None: no rank has any of it.
    """
    flat = flatten(state)
    steady = [flat.stored(name, who.rank) for name in flat.tensors if name in flat.steady]
    locals_ = [
        one
        for one in describe(flat, who.rank, who.size, replicas)
        if one.name in steady and one.replica.count > 1
    ]
    if not locals_:
        return None
    whole = [replace(one, replica=_ALL_OF_IT) for one in locals_]
    sources, at, nbytes = sources_of(whole, 0)
    job, step, epoch = told
    entries = tuple(source.entry for source in sources)
    head = Head(job, step, epoch, who.rank, who.size, entries, (at, 0), nbytes)
    region = Region("offer", max(1, nbytes))
    for source in sources:
        write(source.entry, source.view, region.view)
    return Message("offer", {}, head.to_bytes(), (region.descriptor,)), region
