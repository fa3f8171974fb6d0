"""What holds of the calls on a process group that are made inside a context."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from holdfast.errors import ConfigError
from holdfast.options import HOLES
from holdfast.torch import backend_of


@contextlib.contextmanager
def priority(value: int, group: Any = None) -> Iterator[None]:
    """Give the ops that are called on a process group in this context a priority.

    Of the ops under way, those of higher priority go first, piece by piece; the others still get a
    share. Orders what this rank does: ranks may give different ones. Other threads' calls on the
    group are meant, too, as long as the context lasts.

    Parameters
    ----------
    value : int
        Ops have 0 outside of contexts.
    group : ProcessGroup, optional
        Default: the world.

    Raises
    ------
    ConfigError
        When `value` is no number of 32 bits; for a group that is not Holdfast's.

    Examples
    --------
    A DDP communication hook whose last buckets, which the next forward pass needs first, pass
    the others:

    >>> def hook(group, bucket):
    ...     with holdfast.priority(bucket.index(), group):
    ...         work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    ...     return work.get_future().then(lambda done: done.value()[0] / dist.get_world_size(group))
    """
    from holdfast.comm.requests import HIGHEST_PRIORITY

    if not isinstance(value, int) or abs(value) > HIGHEST_PRIORITY:
        raise ConfigError(
            f"priority: value = {value!r}; accepted: -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
        )
    backend = backend_of(group)
    before = backend.priority
    backend.priority = value
    try:
        yield
    finally:
        backend.priority = before


@contextlib.contextmanager
def on_hole(value: str, group: Any = None) -> Iterator[None]:
    """Say what a hole means to the ops that are called on a process group in this context.

    A hole is the place in a gathered result (of all_gather, all_to_all, gather, and of what torch
    builds on them) of a rank that is away and whose block nobody has. Every rank gives the same
    word. Other threads' calls on the group are meant, too, as long as the context lasts.

    Parameters
    ----------
    value : str
        ``"raise"``: PeerLost on all ranks, naming those that are away, while the group goes on.
        ``"zero"``: zeros, and the ranks in :func:`outcome`. Outside of contexts the option
        `on_hole` holds.
    group : ProcessGroup, optional
        Default: the world.

    Raises
    ------
    ConfigError
        When `value` is something else; for a group that is not Holdfast's.

    Examples
    --------
    Whoever is there tells something, and nobody minds who is not:

    >>> with holdfast.on_hole("zero"):
    ...     work = dist.all_gather_into_tensor(everybody, mine, async_op=True)
    >>> work.wait()
    >>> there = holdfast.outcome(work).contributors
    """
    if value not in HOLES:
        raise ConfigError(f'on_hole: value = {value!r}; accepted: "raise", "zero"')
    backend = backend_of(group)
    before = backend.on_hole
    backend.on_hole = value
    try:
        yield
    finally:
        backend.on_hole = before
