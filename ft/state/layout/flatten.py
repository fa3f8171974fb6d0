"""A user's state as named tensors and a rest.

Names do not depend on how a model is spread: a model's are those of its parameters and buffers, an
optimiser's state is named by its parameters. What is neither a model, an optimiser nor a container
but has ``state_dict`` is a rank's own, its plain tensors with it; all else goes into the rest,
which is pickled, with a `Leaf` where a tensor was.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Shard

from holdfast.errors import ConfigError
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.entry import refuse_name
from holdfast.ft.state.layout.leaf import Leaf, Part, joined, own_name
from holdfast.ft.state.layout.parameters import (
    bare,
    inner_optimizer,
    modules_of,
    named_parameters,
    parameter_names,
    refuse_depth,
    tensors_of,
    unwrapped,
)

# Long rows of these, as generators have them, need no walk.
_PLAIN = {int, float, bool, str, type(None)}


@dataclass(slots=True)
class Flat:
    """A state, taken apart.

    Parameters
    ----------
    tensors : dict of str to torch.Tensor
        By name, each once, by reference.
    own : set of str
        Names of those that are this rank's alone.
    steady : set of str
        Names of parameters and of optimisers' state, which forward and backward leave alone. All
        else is to be copied first: a version counter does not tell of all that forward writes.
    rest : object
        All else, with leaves in place of tensors.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    steady: set[str] = field(default_factory=set)
    rest: Any = None

    def stored(self, name: str, rank: int) -> str:
        """Return the name of a tensor in a head.

        Parameters
        ----------
        name : str
            Its path in the state.
        rank : int
            This one.
        """
        return own_name(rank, name) if name in self.own else name


def flatten(state: Mapping[str, Any]) -> Flat:
    """Take a state apart; nothing is copied.

    Parameters
    ----------
    state : mapping of str to object
        Models, optimisers, whatever has ``state_dict``, tensors, containers and plain values.

    Raises
    ------
    ConfigError
        For a tensor that cannot be saved, with its path and what to do.
    """
    walk = Walker(parameter_names(modules_of(state)))
    walk.flat.rest = {key: walk.walk(value, joined("", key)) for key, value in state.items()}
    return walk.flat


class Walker:
    """One pass over a state.

    Parameters
    ----------
    names : mapping of int to str
        Of parameters, by identity.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self.flat = Flat()
        self._names = names
        self._seen: dict[tuple[Any, ...], str] = {}

    def walk(self, value: Any, path: str, own: bool = False, depth: int = 0) -> Any:
        """Return what stands for a value in the rest.

        Parameters
        ----------
        value : object
            Of the state.
        path : str
            Where it is.
        own : bool
            Whether plain tensors are this rank's alone.
        depth : int
            Containers around it.
        """
        refuse_depth(depth, path)
        if isinstance(value, torch.Tensor):
            return self._leaf(value, path, own)
        if isinstance(value, nn.Module):
            tensors = tensors_of(value)
            inner_names = {unwrapped(name) for name, _ in bare(value).named_parameters()}
            self.flat.steady.update(joined(path, name) for name in inner_names)
            return Part(
                "module", {k: self.walk(v, joined(path, k), own) for k, v in tensors.items()}
            )
        if isinstance(value, torch.optim.Optimizer):
            return Part("optimizer", self._optimizer(value, path))
        if type(value) in (dict, OrderedDict):
            inner = {k: self.walk(v, joined(path, k), own, depth + 1) for k, v in value.items()}
            return inner if type(value) is dict else OrderedDict(inner)
        if type(value) in (list, tuple):
            if all(type(each) in _PLAIN for each in value):
                return value
            return type(value)(
                self.walk(v, joined(path, str(i)), own, depth + 1) for i, v in enumerate(value)
            )
        if has_state(value):
            return Part("object", self.walk(value.state_dict(), path, True, depth + 1))
        return value

    def _optimizer(self, optimizer: torch.optim.Optimizer, path: str) -> dict[str, Any]:
        optimizer = inner_optimizer(optimizer)
        names = [*named_parameters(optimizer, self._names)]
        packed = optimizer.state_dict()
        state_path = joined(path, "state")
        state = {}
        for index, kept in packed["state"].items():
            name = names[index] if isinstance(index, int) else index
            before = len(self.flat.tensors)
            state[name] = self.walk(kept, joined(state_path, name))
            self.flat.steady.update([*self.flat.tensors][before:])
        members = [[names[index] for index in group["params"]] for group in packed["param_groups"]]
        groups = self.groups(packed["param_groups"], members, path)
        extra = {k: v for k, v in packed.items() if k not in ("state", "param_groups")}
        kept = {k: self.walk(v, joined(path, k), True) for k, v in extra.items()}
        return {"state": state, "param_groups": groups, "extra": kept}

    def groups(
        self, groups: list[dict[str, Any]], members: list[list[str]], path: str
    ) -> list[dict[str, Any]]:
        """Return what stands for an optimiser's groups of parameters.

        Parameters
        ----------
        groups : list of dict
            The optimiser's.
        members : list of list of str
            Names of the parameters of each.
        path : str
            The optimiser's.
        """
        found = []
        for g, (group, names) in enumerate(zip(groups, members, strict=True)):
            where = joined(joined(path, "param_groups"), str(g))
            values = {k: self.walk(v, joined(where, k)) for k, v in group.items() if k != "params"}
            found.append({**values, "params": names})
        return found

    def _leaf(self, tensor: torch.Tensor, path: str, own: bool) -> Any:
        sharded: tuple[int, ...] = ()
        local = tensor
        if isinstance(tensor, DTensor):
            own = False
            sharded = tuple(p.dim if isinstance(p, Shard) else -1 for p in tensor.placements)
            local = tensor._local_tensor
        elif not is_plain(tensor):
            refuse_sharded(tensor, path)
            return tensor
        refuse_meta(local, path)
        refuse_name(path)
        key = (
            local.device,
            local.untyped_storage().data_ptr(),
            local.storage_offset(),
            tuple(local.shape),
            local.stride(),
            local.dtype,
            tuple(tensor.shape),
            sharded,
        )
        # An empty tensor's storage is nowhere, so that two of them may look alike.
        name = self._seen.setdefault(key, path) if local.numel() else path
        if name == path:
            self.flat.tensors[path] = tensor
            if own:
                self.flat.own.add(path)
        return Leaf(name, local.device.type, sharded)


def has_state(value: object) -> bool:
    """Return whether something has a state of its own that can be loaded.

    Parameters
    ----------
    value : object
        Anything.
    """
    return callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None)
    )


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's bytes are all that there is of it; others are pickled.

    Parameters
    ----------
    tensor : torch.Tensor
        No DTensor.
    """
    return (
        type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer)
        and tensor.layout == torch.strided
        and str(tensor.dtype)[6:] in ITEM_BYTES
    )


def refuse_sharded(tensor: torch.Tensor, path: str) -> None:
    """Refuse what FSDP 1 has: its names and places are its own."""
    if type(tensor).__name__ in ("ShardedTensor", "FlatParameter"):
        raise ConfigError(
            f"state {path!r}: a {type(tensor).__name__} of FSDP 1; accepted: tensors and DTensors; "
            "use torch.distributed.fsdp.fully_shard"
        )


def refuse_meta(tensor: torch.Tensor, path: str) -> None:
    """Refuse a tensor without bytes."""
    if tensor.is_meta:
        raise ConfigError(
            f"state {path!r}: a tensor of device meta has no bytes; accepted: one that is made; "
            "call to_empty() and load or initialise it before"
        )


def dumped(rest: Any, path: str = "") -> bytes:
    """Pickle a rest.

    Parameters
    ----------
    rest : object
        Of a `Flat`, or a part of it.
    path : str
        Of the part.

    Raises
    ------
    ConfigError
        With the path of what cannot be pickled.
    """
    try:
        return pickle.dumps(rest, protocol=5)
    except Exception as error:
        raise ConfigError(
            f"state {_unpicklable(rest, path)!r}: {error}; accepted: what pickle takes; give it "
            "state_dict and load_state_dict, or leave it out"
        ) from None


def _unpicklable(rest: Any, path: str) -> str:
    inner = rest.value if isinstance(rest, Part) else rest
    if isinstance(inner, dict):
        for key, value in inner.items():
            try:
                pickle.dump(value, io.BytesIO(), protocol=5)
            except Exception:
                return _unpicklable(value, joined(path, key))
    return path
