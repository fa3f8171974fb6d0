"""`restartable`: a function that trains, called again in the same process after a loss.

Who has lost a peer leaves all that the function had made, waits for the peer to come back, and
calls it anew; with `Snapshots` inside, it goes on from the keepers' memory. Nothing is imported or
connected again but what the function makes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
import torch.distributed as dist

import holdfast
from holdfast import _process
from holdfast.compress.options import require
from holdfast.errors import HoldfastError, NotMember, PeerLost

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
# Between two looks whether ranks have come back.
_LOOK_S = 0.05


class Restart(NamedTuple):
    """What a call of a restartable function is told."""

    number: int
    """Calls before this one, in this process."""
    reason: str
    """Why there is another one; empty at the first."""
    ranks: tuple[int, ...]
    """Ranks of the default process group that are there."""


def restartable(
    function: Callable[Concatenate[Restart, _Args], _Result] | None = None,
    *,
    on: Sequence[type[BaseException]] = (),
    rejoin_timeout: float = 60.0,
    most: int = 1000,
    init: Callable[[], object] | None = None,
) -> Callable[..., object]:
    """Call a function again when a peer was lost, in the same process.

    The default process group, of backend ``holdfast`` and with ``on_hole="raise"`` or
    ``on_peer_loss="raise"``, is made before; it stays, and ranks that were lost take their places
    in it when they are started again (``holdfast run --respawn``, ``holdfast respawn``). Groups
    that the function has made are destroyed, and so is what it has left on the heap. A process that
    was voted out while it was well, as after a pause, comes in again as a newcomer does.

    Parameters
    ----------
    function : callable
        Its first argument is a `Restart`.
    on : sequence of exception types
        That it is called again for, beside `PeerLost` and `NotMember`; all ranks raise one.
    rejoin_timeout : float
        Seconds to wait for ranks that were lost; then the function is called with fewer.
    most : int
        Restarts in one process; the error that ends the next call passes.
    init : callable, optional
        Makes the default process group again for a process that was voted out. Default:
        ``dist.init_process_group("holdfast")``.

    Returns
    -------
    callable
        The function, without its first argument.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value.
    """
    require(rejoin_timeout >= 0, "rejoin_timeout", rejoin_timeout, "seconds, 0 and more")
    require(most >= 0, "most", most, "0 and more")
    if function is None:
        return functools.partial(
            restartable, on=on, rejoin_timeout=rejoin_timeout, most=most, init=init
        )
    kinds: tuple[type[BaseException], ...] = (PeerLost, NotMember, *on)
    caught: tuple[type[BaseException], ...] = (RuntimeError, *kinds)
    made = init or (lambda: dist.init_process_group("holdfast"))

    @functools.wraps(function)
    def run(*args: _Args.args, **named: _Args.kwargs) -> _Result:
        number, reason = 0, ""
        while True:
            try:
                if reason.startswith(NotMember.__name__):
                    dist.destroy_process_group()
                    _process.renew()
                    made()
                elif number:
                    _destroy_groups()
                _come_together(rejoin_timeout)
                _align_names()
                return function(Restart(number, reason, _live()), *args, **named)
            except caught as error:
                found = _reason(error, kinds)
                if not found or number == most:
                    raise
                reason = found
                _forget(error)
            number += 1
            gc.collect()

    return run


def _reason(error: BaseException, kinds: tuple[type[BaseException], ...]) -> str:
    """Return why an error has a function called again; empty: it has not."""
    if isinstance(error, kinds):
        return f"{type(error).__name__}: {error}"
    return str(error) if came_through_torch(error) else ""


def came_through_torch(error: BaseException) -> bool:
    """Whether an error is a loss that has lost its class in torch's C++, as in DDP's backward."""
    names = tuple(f"{kind.__name__}: " for kind in (PeerLost, NotMember))
    return isinstance(error, RuntimeError) and str(error).startswith(names)


def _forget(error: BaseException | None) -> None:
    """Let go of the frames of an error, and of those that led to it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _is_one_of_many() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_backend() == "holdfast"


def _live() -> tuple[int, ...]:
    if _is_one_of_many():
        return holdfast.live_ranks()
    return tuple(range(dist.get_world_size())) if dist.is_initialized() else (0,)


def _destroy_groups() -> None:
    """Have no group but the default one."""
    for group in [
        one for one in dist.distributed_c10d._world.pg_map if one is not dist.group.WORLD
    ]:
        # Whatever it says, it has ended.
        with contextlib.suppress(HoldfastError):
            dist.destroy_process_group(group)


def _come_together(rejoin_timeout: float) -> None:
    """Wait for all ranks that come back in time; collective, newcomers call it first of all."""
    if not _is_one_of_many():
        return
    deadline, waiting = time.monotonic() + rejoin_timeout, threading.Event()
    while True:
        view = holdfast.advance()
        if len(view.ranks) == dist.get_world_size():
            return
        # The clocks differ: when one gives up, all do.
        gives_up = torch.tensor([float(time.monotonic() > deadline)])
        dist.all_reduce(gives_up, dist.ReduceOp.MAX)
        if gives_up.item():
            return
        waiting.wait(_LOOK_S)


def _align_names() -> None:
    """Have the next group of torch's get the same name on all ranks, newcomers among them."""
    if not _is_one_of_many():
        return
    world = dist.distributed_c10d._world
    count = torch.tensor([world.group_count])
    dist.all_reduce(count, dist.ReduceOp.MAX)
    world.group_count = int(count.item())
