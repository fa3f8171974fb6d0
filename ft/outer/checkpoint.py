"""What of a trainer goes into a checkpoint, and what becomes of it with other members.

Every leaf is a tensor of fixed shape or a plain value, and what is a member's own is below its
rank, so that torch.distributed.checkpoint takes a state as it is. The rules for other members are
in docs/guide/outer-steps.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from holdfast.compress.options import require
from holdfast.errors import ConfigError
from holdfast.ft.outer.mean import Mean

Settings = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]
_KEYS = ["flights", "members", "own", "settings", "shared"]
# Of what is a member's own, what it owes the others.
_OWED = "residual/"


def refuse_other(state: Mapping[str, Any], ours: Settings) -> None:
    """Refuse the state of something else than such a trainer.

    Parameters
    ----------
    state : mapping
        What ``state_dict`` returned.
    ours : mapping
        The settings of the trainer that is to load it.

    Raises
    ------
    ConfigError
        With the settings of both.
    """
    keys = sorted(str(key) for key in state)
    require(keys == _KEYS, "state of a trainer", keys, f"{_KEYS}")
    if state["settings"] != ours:
        raise ConfigError(
            f"the state is of {told(state['settings'])}; this trainer is {told(ours)}; "
            "accepted: a state of the same; make the trainer as the saved one was made"
        )


def told(settings: Settings) -> str:
    """Return settings as a call that makes such a trainer.

    Parameters
    ----------
    settings : mapping
        As a trainer has them.
    """
    values = [f"{name}={value!r}" for name, value in settings.items() if name != "method"]
    return f"{settings.get('method')}({', '.join(values)})"


def refuse_kind(is_same: bool, ours: Settings) -> None:
    """Refuse a newcomer's trainer that is not as the others'.

    Parameters
    ----------
    is_same : bool
        Whether it is.
    ours : mapping
        The newcomer's settings.

    Raises
    ------
    ConfigError
        With these settings.
    """
    if not is_same:
        raise ConfigError(
            f"this member's trainer is {told(ours)}, and the others' is another one, or has "
            "another codec or outer optimiser; accepted: made as theirs were"
        )


def copy(what: str, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    """Copy tensors by name.

    Parameters
    ----------
    what : str
        Whose state they are.
    ours, theirs : mapping of str to torch.Tensor
        Written in place, and read.

    Raises
    ------
    ConfigError
        When names or shapes differ; nothing is written then.
    """

    def shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in sorted(tensors.items())}

    require(shapes(ours) == shapes(theirs), f"{what} state", shapes(theirs), f"{shapes(ours)}")
    for name, tensor in ours.items():
        tensor.copy_(theirs[name])


def load_own(state: Mapping[str, Any], own: Tensors, rank: int, members: Sequence[int]) -> None:
    """Take over what members had of their own.

    What a member that is there no more owed goes to the one at its place, modulo the number of
    members: the sum of all residuals stays.

    Parameters
    ----------
    state : mapping
        What ``state_dict`` returned, with the parts of all members that this one needs.
    own : mapping of str to torch.Tensor
        Written in place; of a member that was not among them, as a newcomer has it.
    rank : int
        This member's.
    members : sequence of int
        Ranks that are there now.

    Raises
    ------
    ConfigError
        When a part is missing.
    """
    parts = state["own"]
    if rank in state["members"]:
        copy("own", own, _part(parts, rank))
    for gone in left_by(state["members"], members, rank):
        for name, tensor in own.items():
            if is_owed(name):
                tensor.add_(_part(parts, gone)[name].to(tensor.device))


def left_by(was: Sequence[int], members: Sequence[int], rank: int) -> list[int]:
    """Return the ranks that are there no more, and whose debts a member takes over.

    Parameters
    ----------
    was, members : sequence of int
        Ranks that were there, and that are.
    rank : int
        The member.
    """
    return [gone for gone in was if gone not in members and members[gone % len(members)] == rank]


def is_owed(name: str) -> bool:
    """Return whether a tensor of a member's own is what it owes the others."""
    return name.startswith(_OWED)


def _part(parts: Mapping[str, Tensors], rank: int) -> Tensors:
    if str(rank) not in parts:
        there = ", ".join(sorted(parts)) or "none"
        raise ConfigError(
            f"state['own'] has the parts of ranks {there}; accepted: that of rank {rank}, too; "
            "each rank loads what it saved, and with other members the parts of all"
        )
    return parts[str(rank)]


def flights(arrivals: Mapping[int, Mean]) -> list[Any]:
    """Return what is to be saved of means that have arrived, beside their values.

    Parameters
    ----------
    arrivals : mapping of int to Mean
        By fragment.
    """
    # Lists of plain values are one leaf, whatever is under way.
    return [
        [f, [[*each] for each in mean.weights.items()], [*mean.not_finite], mean.is_empty]
        for f, mean in sorted(arrivals.items())
    ]


def arrivals(flights: Sequence[Any], shared: Tensors) -> dict[int, Mean]:
    """Return the means of a checkpoint.

    Parameters
    ----------
    flights : sequence
        As `flights` has made it.
    shared : mapping of str to torch.Tensor
        With their values.
    """
    return {
        fragment: Mean(
            shared[f"arrived/{fragment}"].clone(),
            {int(rank): float(weight) for rank, weight in weights},
            tuple(not_finite),
            bool(is_empty),
        )
        for fragment, weights, not_finite, is_empty in flights
    }
