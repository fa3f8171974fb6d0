"""What ranks that are gone owed the others: residuals are added up, so that their sum stays.

A state with ``kept`` and ``spread`` is that of holdfast.compress's residuals; one with ``own`` and
``members`` is an outer trainer's, which adds up by itself once it has the parts of all.
"""

from __future__ import annotations

from typing import Any

import torch

from holdfast.ft.state.layout.leaf import Leaf, Part, keys_of

_RESIDUALS = {"kept", "spread"}
_TRAINER = {"own", "members"}


def left_by(saved: int, world: int, rank: int) -> list[int]:
    """Return the ranks that are gone and whose debts a rank takes over.

    Parameters
    ----------
    saved, world : int
        How many ranks saved, and how many there are now.
    rank : int
        This one.
    """
    return [gone for gone in range(world, saved) if gone % world == rank]


def is_owed(name: str) -> bool:
    """Return whether a tensor of a rank's own may be something that it owes.

    Parameters
    ----------
    name : str
        Its path in the state.
    """
    keys = keys_of(name)
    return "kept" in keys or "own" in keys


def adopt(mine: Any, theirs: Any, rank: int) -> None:
    """Add what a rank that is gone owed to what this one owes; in place.

    Parameters
    ----------
    mine, theirs : object
        Both ranks' rests, with tensors in them.
    rank : int
        The one that is gone.
    """
    if isinstance(mine, Part) and isinstance(theirs, Part):
        adopt(mine.value, theirs.value, rank)
    elif isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.keys() == _RESIDUALS == theirs.keys():
            _add(mine, theirs)
        elif mine.keys() >= _TRAINER and theirs.keys() >= _TRAINER:
            mine["own"] = {**theirs["own"], **mine["own"]}
        else:
            for key in mine.keys() & theirs.keys():
                adopt(mine[key], theirs[key], rank)
    elif isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        for one, other in zip(mine, theirs, strict=False):
            adopt(one, other, rank)


def without_debts(mine: Any) -> Any:
    """Return the rest of a rank that has come new: it owes nothing, another has it all.

    Parameters
    ----------
    mine : object
        Another rank's rest, of which this one's is made.
    """
    if isinstance(mine, Part):
        return Part(mine.kind, without_debts(mine.value))
    if isinstance(mine, dict):
        if mine.keys() == _RESIDUALS:
            # It takes part when the others put spread ones together, with zeros.
            spread = {name: [0, where[1], 0] for name, where in mine["spread"].items()}
            return {"kept": {}, "spread": spread}
        if mine.keys() >= _TRAINER:
            return {**mine, "own": {}}
        inner = {key: without_debts(value) for key, value in mine.items()}
        return inner if type(mine) is dict else type(mine)(inner)
    if type(mine) in (list, tuple):
        return type(mine)(without_debts(value) for value in mine)
    return mine


def _add(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, tensor in theirs["kept"].items():
        if isinstance(tensor, Leaf):
            continue
        if name in theirs["spread"]:
            _unite(mine, name, tensor, theirs["spread"][name])
        elif name in mine["kept"] and mine["kept"][name].shape == tensor.shape:
            mine["kept"][name].add_(tensor.to(mine["kept"][name].device))
        elif name not in mine["kept"]:
            mine["kept"][name] = tensor


def _unite(mine: dict[str, Any], name: str, tensor: torch.Tensor, where: Any) -> None:
    """Put a part of a vector that is spread over the ranks beside this rank's own parts."""
    start, total, _ = where
    whole = torch.zeros(total, dtype=tensor.dtype, device=tensor.device)
    parts = [(start, tensor)]
    if name in mine["spread"] and name in mine["kept"]:
        parts.append((mine["spread"][name][0], mine["kept"][name]))
    for at, part in parts:
        length = max(0, min(part.numel(), total - at))
        whole[at : at + length] += part[:length].to(whole.device)
    mine["kept"][name] = whole
    # A number of parts that no group has: all members put their parts together before the next op.
    mine["spread"][name] = [0, total, 0]
