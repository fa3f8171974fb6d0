"""What of a trainer goes into a checkpoint, and whether a state is of such a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from holdfast.compress.options import require
from holdfast.errors import ConfigError
from holdfast.ft.outer.mean import Mean

Settings = Mapping[str, Any]
_KEYS = ["flights", "own", "settings", "shared"]


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


def flights(arrivals: Mapping[int, Mean]) -> dict[int, dict[str, Any]]:
    """Return what is to be saved of means that have arrived, beside their values.

    Parameters
    ----------
    arrivals : mapping of int to Mean
        By fragment.
    """
    return {
        fragment: {
            "weights": dict(arrived.weights),
            "not_finite": list(arrived.not_finite),
            "is_empty": arrived.is_empty,
        }
        for fragment, arrived in arrivals.items()
    }


def arrivals(
    flights: Mapping[int, Mapping[str, Any]], shared: Mapping[str, torch.Tensor]
) -> dict[int, Mean]:
    """Return the means of a checkpoint.

    Parameters
    ----------
    flights : mapping
        As `flights` has made it.
    shared : mapping of str to torch.Tensor
        With their values.
    """
    return {
        fragment: Mean(
            shared[f"arrived/{fragment}"].clone(),
            dict(flight["weights"]),
            tuple(flight["not_finite"]),
            bool(flight["is_empty"]),
        )
        for fragment, flight in flights.items()
    }
