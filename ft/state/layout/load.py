"""What is no tensor, into the objects of a state; tensors that were filled in place stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from holdfast.errors import ConfigError
from holdfast.ft.state.layout.leaf import Leaf, Part, joined, keys_of
from holdfast.ft.state.layout.parameters import (
    bare,
    inner_optimizer,
    named_parameters,
    tensors_of,
    unwrapped,
)

Made = Mapping[str, torch.Tensor]


@torch.no_grad()
def load(state: Any, saved: dict[Any, Any], names: Mapping[int, str], made: Made) -> None:
    """Load a rest.

    Parameters
    ----------
    state : dict
        What is there now; plain values in it are replaced.
    saved : dict
        The rest, with tensors in place of leaves.
    names : mapping of int to str
        Of parameters, by identity.
    made : mapping of str to torch.Tensor
        Tensors that were filled, by name.
    """
    _Loading(names, made).into_container(state, saved, "")


class _Loading:
    def __init__(self, names: Mapping[int, str], made: Made) -> None:
        self._names, self._made = names, made
        self._owned: dict[str, dict[str, list[tuple[str, torch.Tensor]]]] = {}

    def into_container(self, now: Any, saved: Any, path: str) -> None:
        if isinstance(now, dict):
            pairs = [(key, saved[key], joined(path, key)) for key in saved]
        else:
            pairs = [(i, value, joined(path, str(i))) for i, value in enumerate(saved)]
            if isinstance(now, list) and len(now) > len(saved):
                del now[len(saved) :]
        for key, value, where in pairs:
            there = key in now if isinstance(now, dict) else key < len(now)
            new = self._loaded(now[key], value, where) if there else value
            if isinstance(now, list) and not there:
                now.append(new)
            elif not there or new is not now[key]:
                _assign(now, key, new, where)

    def _loaded(self, now: Any, value: Any, path: str) -> Any:
        """Return what is at a place afterwards: the same object wherever it can be loaded."""
        if isinstance(value, Part):
            self._part(now, value, path)
            return now
        if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor):
            if value is not now and path not in self._made:
                now.copy_(value)
            return now
        containers = (dict, list, tuple)
        if isinstance(now, containers) and isinstance(value, containers):
            if isinstance(now, tuple) and now == value:
                return now
            if isinstance(now, dict) != isinstance(value, dict):
                return value
            if isinstance(now, tuple) and len(now) == len(value):
                pairs = zip(now, value, strict=True)
                return tuple(
                    self._loaded(a, b, joined(path, str(i))) for i, (a, b) in enumerate(pairs)
                )
            if isinstance(now, tuple):
                return value
            self.into_container(now, value, path)
            return now
        return value

    def _part(self, now: Any, part: Part, path: str) -> None:
        if part.kind == "module" and isinstance(now, nn.Module):
            self._module(now, part.value, path)
        elif part.kind == "optimizer" and isinstance(now, torch.optim.Optimizer):
            self._optimizer(inner_optimizer(now), part.value, path)
        elif part.kind == "object" and callable(getattr(now, "load_state_dict", None)):
            now.load_state_dict(part.value)
        else:
            raise ConfigError(
                f"another model's state: {path!r} was saved of a {part.kind}, and is a "
                f"{type(now).__name__} here; give what was given when it was saved"
            )

    def _module(self, module: nn.Module, saved: Mapping[str, Any], path: str) -> None:
        now = tensors_of(module)
        others = {}
        for key, value in saved.items():
            if joined(path, key) in self._made or isinstance(value, Leaf):
                continue
            there = now.get(key)
            if isinstance(there, torch.Tensor) and isinstance(value, torch.Tensor):
                if not _is_same(there, value):
                    there.copy_(value)
            else:
                others[key] = value
        if others:
            for name, inner in bare(module).named_modules():
                key = unwrapped(f"{name}._extra_state" if name else "_extra_state")
                if key in others:
                    inner.set_extra_state(others[key])

    def _optimizer(
        self, optimizer: torch.optim.Optimizer, saved: Mapping[str, Any], path: str
    ) -> None:
        parameters = named_parameters(optimizer, self._names)
        groups = saved["param_groups"]
        if len(groups) != len(optimizer.param_groups):
            raise ConfigError(
                f"another model's state: {path!r} has {len(groups)} groups of parameters there and "
                f"{len(optimizer.param_groups)} here; make the optimizer as it was made"
            )
        for g, (group, values) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
            where = joined(joined(path, "param_groups"), str(g))
            for key, value in values.items():
                if key != "params":
                    group[key] = self._loaded(group.get(key), value, joined(where, key))
        state = {
            name: self._state_of(name, saved["state"].get(name), joined(path, "state"))
            for name in parameters
        }
        if saved["extra"]:
            self._extra(optimizer, saved["extra"], parameters, state)
        for name, parameter in parameters.items():
            if state[name] is None:
                optimizer.state.pop(parameter, None)
            else:
                optimizer.state[parameter] = state[name]

    def _state_of(self, name: str, kept: Any, path: str) -> Any:
        """Return a parameter's state: as this rank's rest has it, or of the tensors that came."""
        if kept is not None:
            return self._bound(kept)
        found: dict[str, Any] = {}
        for below, tensor in self._by_owner(path).get(joined("", name), ()):
            *outer, last = keys_of(below)
            inner = found
            for key in outer:
                inner = inner.setdefault(key, {})
            inner[last] = tensor
        return found or None

    def _by_owner(self, path: str) -> dict[str, list[tuple[str, torch.Tensor]]]:
        """Return the tensors that came, by the key below a path, with what is below that."""
        found = self._owned.get(path)
        if found is None:
            found = self._owned[path] = {}
            for full, tensor in self._made.items():
                if full.startswith(f"{path}/"):
                    owner, _, below = full[len(path) + 1 :].partition("/")
                    if below:
                        found.setdefault(owner, []).append((below, tensor))
        return found

    def _bound(self, kept: Any) -> Any:
        if isinstance(kept, Leaf):
            raise ConfigError(
                f"another model's state: tensor {kept.name!r} is not here; make the optimizer as "
                "it was made when it was saved"
            )
        if isinstance(kept, dict):
            return {key: self._bound(value) for key, value in kept.items()}
        return kept

    def _extra(
        self,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Any],
        parameters: Mapping[str, torch.Tensor],
        state: Mapping[str, Any],
    ) -> None:
        """Load what an optimiser has beside torch's own; it may cast state, which is put after."""
        packed = optimizer.state_dict()
        packed["state"] = {
            index: state[name] for index, name in enumerate(parameters) if state[name] is not None
        }
        optimizer.load_state_dict({**packed, **extra})


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    one, other = (getattr(each, "_local_tensor", each) for each in (a, b))
    if one.layout != torch.strided or other.layout != torch.strided:
        return one is other
    return bool(one.data_ptr() == other.data_ptr() and one.shape == other.shape)


def _assign(now: Any, key: Any, value: Any, path: str) -> None:
    try:
        now[key] = value
    except TypeError:
        raise ConfigError(
            f"state {path!r}: a {type(now).__name__} cannot be written; accepted: dict and list"
        ) from None
