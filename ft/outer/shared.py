"""What is the same on all members: fixed tensors, written in place.

A newcomer takes them over as they are, and a checkpoint has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from holdfast.ft.outer.flat import Flat
from holdfast.ft.outer.mean import Mean
from holdfast.ft.outer.optimizers import OuterOptimizer
from holdfast.ft.outer.rounds import Rounds

# Of a fragment whose mean has arrived before its time: whether anybody's progress is in it.
_NONE, _FULL, _EMPTY = 0, 1, 2


def tensors(
    flats: Sequence[Flat], rounds: Rounds, outer: OuterOptimizer
) -> dict[str, torch.Tensor]:
    """Return the tensors of a run that begins, by name; those of a fragment end with its number.

    Parameters
    ----------
    flats : sequence of Flat
        The fragments, from whose values the run begins.
    rounds : Rounds
        Their table.
    outer : OuterOptimizer
        Whose state is among them.
    """
    # Local steps of the run, then the step at which each fragment began last.
    made = {"steps": torch.zeros(1 + len(flats), dtype=torch.int64)}
    # Samples that a member has in a round, as agreed last; a step has one if nobody says more.
    first = [begin.step for begin in rounds.events if begin.act == "begin"]
    made["unit"] = torch.tensor(first, dtype=torch.float64)
    made["arrived"] = torch.zeros(len(flats), dtype=torch.int64)
    for fragment, flat in enumerate(flats):
        made[f"outer/{fragment}"] = flat.read()
        for name, count in outer.state_of(flat.count).items():
            made[f"{name}/{fragment}"] = flat.zeros(count)
        if rounds.delay:
            made[f"arrived/{fragment}"] = flat.zeros()
    return made


def parameters(
    shared: Mapping[str, torch.Tensor], flats: Sequence[Flat], rounds: Rounds
) -> dict[str, torch.Tensor]:
    """Return the shared parameters by name, by reference.

    Parameters
    ----------
    shared : mapping of str to torch.Tensor
        Where they are.
    flats : sequence of Flat
        The fragments, with their shapes.
    rounds : Rounds
        Their table, with their names.
    """
    found: dict[str, torch.Tensor] = {}
    for fragment, (flat, part) in enumerate(zip(flats, rounds.parts, strict=True)):
        found.update(zip(part, flat.views(shared[f"outer/{fragment}"]), strict=True))
    return found


def keep(shared: Mapping[str, torch.Tensor], arrivals: Mapping[int, Mean]) -> None:
    """Write down means that have arrived before their time.

    Parameters
    ----------
    shared : mapping of str to torch.Tensor
        Where to.
    arrivals : mapping of int to Mean
        By fragment.
    """
    shared["arrived"].fill_(_NONE)
    for fragment, arrived in arrivals.items():
        shared["arrived"][fragment] = _EMPTY if arrived.is_empty else _FULL
        shared[f"arrived/{fragment}"].copy_(arrived.value)


def kept(shared: Mapping[str, torch.Tensor]) -> dict[int, Mean]:
    """Return the means that `keep` has written; of whom they are, it did not write.

    Parameters
    ----------
    shared : mapping of str to torch.Tensor
        Where from.
    """
    return {
        fragment: Mean(shared[f"arrived/{fragment}"].clone(), {}, (), has == _EMPTY)
        for fragment, has in enumerate(shared["arrived"].tolist())
        if has != _NONE
    }
