"""The newest state that all keepers have, or that was flushed, into what is there now."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from holdfast.errors import HoldfastError, SystemFailure
from holdfast.ft.state import together
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.memory import mapped
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.head import Head
from holdfast.ft.state.layout.plan import Reading, index
from holdfast.ft.state.layout.restore import Restore
from holdfast.ft.state.members import Members
from holdfast.ft.state.stored import newest_stored, why_lost

# All ranks' keepers exchange what their trainers need meanwhile.
_FETCH_S = 600.0


@torch.no_grad()
def bring_back(met: Message, link: KeeperLink, state: Mapping[str, Any], who: Members) -> int:
    """Put a snapshot into a state; collective.

    Parameters
    ----------
    met : Message
        What the keeper has said of it: its step, and the heads of all ranks.
    link : KeeperLink
        To the keeper.
    state : mapping of str to object
        Written in place.
    who : Members
        All trainers.

    Returns
    -------
    int
        The step.

    Raises
    ------
    ConfigError
        It is another model's state, with the first difference.
    """
    step = int(met.fields["step"])
    heads, at = [], 0
    for length in met.fields["heads"].values():
        heads.append(Head.from_bytes(met.blob[at : at + length]))
        at += length
    restore = _restore(state, heads, who)
    own, data = _fetched(restore, link, step, who)
    at = 0
    for one in restore.fill.readings:
        if one.rank in own:
            restore.fill.put_body(one.rank, own[one.rank])
        else:
            restore.fill.put(one.rank, data[at : at + one.nbytes])
            at += one.nbytes
    found = {}
    for rank, (place, length) in restore.rests.items():
        if rank in own:
            found[rank] = bytes(own[rank][place : place + length])
        else:
            found[rank] = bytes(data[at : at + length])
            at += length
    restore.finish(found)
    return step


@torch.no_grad()
def bring_back_flushed(
    url: str, job: str, met: Message, state: Mapping[str, Any], who: Members
) -> int | None:
    """Put the newest state of files into what is there now, of any number of ranks; collective.

    Parameters
    ----------
    url : str
        Where a run's states are; empty: nowhere.
    job : str
        Whose state counts.
    met : Message
        What the keeper has said: why keepers have none, and which step the job had reached.
    state : mapping of str to object
        Written in place.
    who : Members
        All trainers.

    Returns
    -------
    int, optional
        Its step; None: the job has had no state yet.

    Raises
    ------
    SystemFailure
        It has, and nobody has it any more; on all ranks.
    """
    error = str(met.fields.get("error", ""))
    stored, refused = newest_stored(url, job, who)
    if stored is None:
        if error or refused:
            raise SystemFailure(why_lost(job, error, refused))
        return None
    saved = stored.lend_heads()
    restore = _restore(state, saved.heads(), who)
    stored.lend([*restore.fill.readings, *map(_reading, restore.rests.items())])
    for one in restore.fill.readings:
        restore.fill.put(one.rank, saved.gather(one))
    restore.finish({rank: saved.rest(rank) for rank in restore.rests})
    if who.rank == 0:
        reached = int(met.fields.get("reached", 0))
        text = stored.why_taken(reached, [error or "keepers have nothing", *refused])
        warnings.warn(text, RuntimeWarning, stacklevel=7)
    return saved.manifest.step


def _reading(rest: tuple[int, tuple[int, int]]) -> Reading:
    rank, (at, nbytes) = rest
    return Reading(rank, np.array([at], np.int64), np.array([nbytes], np.int64), ())


def _restore(state: Mapping[str, Any], heads: Sequence[Head], who: Members) -> Restore:
    restore = Restore(state, index(heads), who.rank, who.size, check=False)
    needed = {name for names in who.tell(restore.names) for name in names}
    restore.refuse_unknown(needed)
    return restore


def _fetched(
    restore: Restore, link: KeeperLink, step: int, who: Members
) -> tuple[dict[int, memoryview], memoryview]:
    """Return the bodies that lie with this rank's keeper, by rank, where they lie.

    And all ranges of the others that this rank needs, one after the other.
    """
    rows = [
        np.stack([np.full_like(one.starts, one.rank), one.starts, one.lengths], axis=1)
        for one in restore.fill.readings
    ]
    rests = [np.array([[rank, *place]]) for rank, place in restore.rests.items()]
    wanted = np.concatenate([*rows, *rests]).astype("<i8")
    with contextlib.suppress(HoldfastError):  # of a keeper that is gone: all hear of it
        fields = {"step": step, "ranges": len(wanted), "own": 1}
        link.send(Message("fetch", fields, wanted.tobytes()))
        link.send(Message("hurry"))
    got = together.wait(link, "fetched", _FETCH_S, who)
    counts = [got.number("nbytes"), *(int(nbytes) for _, nbytes in got.fields["own"])]
    pairs = zip(got.descriptors, counts, strict=True)
    data, *bodies = [memoryview(mapped(number, nbytes))[:nbytes] for number, nbytes in pairs]
    ranks = [int(rank) for rank, _ in got.fields["own"]]
    return dict(zip(ranks, bodies, strict=True)), data
