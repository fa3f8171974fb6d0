"""A state that is captured again and again: what stays is walked and pickled once.

What may change at every step is walked each time: loaders, generators, schedules, plain tensors,
and the settings of an optimiser's groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from holdfast.ft.state.layout import guards
from holdfast.ft.state.layout.flatten import Flat, Walker, dumped
from holdfast.ft.state.layout.leaf import Packed, Part, joined
from holdfast.ft.state.layout.parameters import inner_optimizer, modules_of, parameter_names


class Steady:
    """A state as it was when it was walked.

    Parameters
    ----------
    state : mapping of str to object
        As for `flatten`.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        walker = Walker(parameter_names(modules_of(state)))
        self.flat = walker.flat
        self._guards: dict[str, tuple[object, guards.Guard]] = {}
        self._rest: dict[str, Any] = {}
        self._dynamic: set[str] = set()
        rest = {}
        for key, value in state.items():
            before = len(self.flat.tensors)
            rest[key] = self._packed(key, value, walker.walk(value, joined("", key)))
            added = [*self.flat.tensors][before:]
            # A rate that is a tensor may be another one each time.
            groups = joined(joined("", key), "param_groups") + "/"
            is_guarded = key in self._guards
            self._dynamic.update(n for n in added if not is_guarded or n.startswith(groups))
        self.flat.rest = rest

    def _packed(self, key: str, value: Any, part: Any) -> Any:
        guard = None
        if isinstance(value, nn.Module):
            guard = guards.of_module(value)
        elif isinstance(value, torch.optim.Optimizer):
            guard = guards.of_optimizer(value)
        if guard is None:
            return part
        self._guards[key] = (value, guard)
        if isinstance(value, nn.Module):
            self._rest[key] = Part(part.kind, Packed(dumped(part.value, key)))
            return self._rest[key]
        kept = {**part.value, "state": Packed(dumped(part.value["state"], key))}
        self._rest[key] = Part(part.kind, kept)
        return self._rest[key]

    def again(self, state: Mapping[str, Any]) -> Flat | None:
        """Return what may have changed, with the whole rest; None: walk everything.

        Parameters
        ----------
        state : mapping of str to object
            The same objects as before, or others.
        """
        if [*state] != [*self.flat.rest]:
            return None
        walker = Walker({})
        rest = {}
        for key, value in state.items():
            if key not in self._guards:
                if guards_later(value):
                    return None
                rest[key] = walker.walk(value, joined("", key))
                continue
            before, holds = self._guards[key]
            if value is not before or not holds():
                return None
            rest[key] = self._rest[key]
            if isinstance(value, torch.optim.Optimizer):
                rest[key] = self._groups(walker, key, value)
        walker.flat.rest = rest
        return walker.flat if self._dynamic == {*walker.flat.tensors} else None

    def _groups(self, walker: Walker, key: str, optimizer: torch.optim.Optimizer) -> Part:
        kept = self._rest[key].value
        members = [group["params"] for group in kept["param_groups"]]
        now = inner_optimizer(optimizer).param_groups
        groups = walker.groups(now, members, joined("", key))
        return Part("optimizer", {**kept, "param_groups": groups})


def guards_later(value: Any) -> bool:
    """Return whether a value has models or optimisers that no guard watches.

    Parameters
    ----------
    value : object
        At the top of a state.
    """
    if isinstance(value, nn.Module | torch.optim.Optimizer):
        return True
    if isinstance(value, Mapping):
        return any(guards_later(each) for each in value.values())
    return isinstance(value, list | tuple) and any(guards_later(each) for each in value)
