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
from holdfast.ft.state.layout.parameters import (
    inner_optimizer,
    modules_of,
    parameter_names,
    refuse_depth,
)

_CHANGED = object()


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
        #: By path: what is watched, and what stands for it.
        self._guards: dict[str, tuple[object, guards.Guard]] = {}
        self._rest: dict[str, Any] = {}
        #: By path: keys of the dicts around what is watched.
        self._keys: dict[str, list[Any]] = {}
        self._dynamic: set[str] = set()
        self.flat.rest = self._first(walker, state, "", -1)

    def _first(self, walker: Walker, value: Any, path: str, depth: int) -> Any:
        """Walk a value, and watch what can be watched of it."""
        if depth < 0 or (type(value) is dict and guards_later(value)):
            refuse_depth(depth, path)
            self._keys[path] = [*value]
            return {k: self._first(walker, v, joined(path, k), depth + 1) for k, v in value.items()}
        before = len(self.flat.tensors)
        rest = self._packed(path, value, walker.walk(value, path, depth=max(0, depth)))
        added = [*self.flat.tensors][before:]
        # A rate that is a tensor may be another one each time.
        groups = joined(path, "param_groups") + "/"
        is_guarded = path in self._guards
        self._dynamic.update(n for n in added if not is_guarded or n.startswith(groups))
        return rest

    def _packed(self, path: str, value: Any, part: Any) -> Any:
        guard = None
        if isinstance(value, nn.Module):
            guard = guards.of_module(value)
        elif isinstance(value, torch.optim.Optimizer):
            guard = guards.of_optimizer(value)
        if guard is None:
            return part
        self._guards[path] = (value, guard)
        if isinstance(value, nn.Module):
            self._rest[path] = Part(part.kind, Packed(dumped(part.value, path)))
            return self._rest[path]
        kept = {**part.value, "state": Packed(dumped(part.value["state"], path))}
        self._rest[path] = Part(part.kind, kept)
        return self._rest[path]

    def again(self, state: Mapping[str, Any]) -> Flat | None:
        """Return what may have changed, with the whole rest; None: walk everything.

        Parameters
        ----------
        state : mapping of str to object
            The same objects as before, or others.
        """
        walker = Walker({})
        rest = self._later(walker, state, "", -1)
        if rest is _CHANGED or self._dynamic != {*walker.flat.tensors}:
            return None
        walker.flat.rest = rest
        return walker.flat

    def _later(self, walker: Walker, value: Any, path: str, depth: int) -> Any:
        """Return what stands for a value now, or that it is to be walked anew."""
        keys = self._keys.get(path)
        if keys is not None:
            if (depth >= 0 and type(value) is not dict) or [*value] != keys:
                return _CHANGED
            found = {
                k: self._later(walker, v, joined(path, k), depth + 1) for k, v in value.items()
            }
            return _CHANGED if any(each is _CHANGED for each in found.values()) else found
        if path not in self._guards:
            if guards_later(value):
                return _CHANGED
            return walker.walk(value, path, depth=depth)
        before, holds = self._guards[path]
        if value is not before or not holds():
            return _CHANGED
        if isinstance(value, torch.optim.Optimizer):
            return self._groups(walker, path, value)
        return self._rest[path]

    def _groups(self, walker: Walker, path: str, optimizer: torch.optim.Optimizer) -> Part:
        kept = self._rest[path].value
        members = [group["params"] for group in kept["param_groups"]]
        now = inner_optimizer(optimizer).param_groups
        groups = walker.groups(now, members, path)
        return Part("optimizer", {**kept, "param_groups": groups})


def guards_later(value: Any) -> bool:
    """Return whether a value has models or optimisers that no guard watches.

    Parameters
    ----------
    value : object
        Of a state.
    """
    if isinstance(value, nn.Module | torch.optim.Optimizer):
        return True
    if isinstance(value, Mapping):
        return any(guards_later(each) for each in value.values())
    return isinstance(value, list | tuple) and any(guards_later(each) for each in value)
