"""Names of an optimiser's parameters: those of the models in a state, else their places."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from holdfast.errors import ConfigError

# Wrappers' own parts of a name, which are not there when the same model is wrapped otherwise.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


# Containers deeper than that hold themselves, or are no state.
MAX_DEPTH = 64


def refuse_depth(depth: int, path: str) -> None:
    """Refuse containers that are too deep.

    Parameters
    ----------
    depth : int
        How many are around a value.
    path : str
        Of the value.

    Raises
    ------
    ConfigError
        With the path.
    """
    if depth > MAX_DEPTH:
        raise ConfigError(
            f"state {path[:80]!r}: containers within containers; accepted: {MAX_DEPTH} of them"
        )


def modules_of(state: object, path: str = "", depth: int = 0) -> dict[str, nn.Module]:
    """Return all modules of a state, by their paths.

    Parameters
    ----------
    state : object
        A state, or a part of it.
    path : str
        Of the part.
    depth : int
        Containers around it.
    """
    refuse_depth(depth, path)
    if isinstance(state, nn.Module):
        return {path: state}
    items: Any = ()
    if isinstance(state, Mapping):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    found: dict[str, nn.Module] = {}
    for key, value in items:
        where = f"{path}/{key}" if path else str(key)
        found.update(modules_of(value, where, depth + 1))
    return found


def parameter_names(modules: Mapping[str, nn.Module]) -> dict[int, str]:
    """Return names of parameters, by their identities.

    Parameters
    ----------
    modules : mapping of str to torch.nn.Module
        By path; with several of them the path is part of the name.
    """
    names: dict[int, str] = {}
    for path, module in modules.items():
        prefix = f"{path}." if len(modules) > 1 else ""
        for name, parameter in bare(module).named_parameters():
            names.setdefault(id(parameter), f"{prefix}{unwrapped(name)}")
    return names


def unwrapped(name: str) -> str:
    """Return a parameter's name without the parts that wrappers have put in.

    Parameters
    ----------
    name : str
        As ``named_parameters`` has it.
    """
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def bare(module: nn.Module) -> nn.Module:
    """Return the model within DistributedDataParallel.

    Parameters
    ----------
    module : torch.nn.Module
        A model, wrapped or not.
    """
    while isinstance(module, nn.parallel.DistributedDataParallel):
        module = module.module
    return module


def tensors_of(module: nn.Module) -> dict[str, Any]:
    """Return a model's state without copies, by names that do not depend on its wrappers.

    Parameters
    ----------
    module : torch.nn.Module
        DDP, FSDP2, HSDP, tensor parallel or plain.
    """
    return dict(get_model_state_dict(module))


def inner_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the optimiser that has this rank's state.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        One that is there, or ZeRO's, around another.
    """
    # Its module is long to import, and who has such an optimiser has imported it.
    zero = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    if zero is not None and isinstance(optimizer, zero.ZeroRedundancyOptimizer):
        inner: torch.optim.Optimizer = optimizer.optim
        return inner
    return optimizer


def named_parameters(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> dict[str, torch.Tensor]:
    """Return an optimiser's parameters in the order of its groups.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Whose.
    names : mapping of int to str
        Of parameters, by identity; one that is not there is named by its place.
    """
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for g, group in enumerate(optimizer.param_groups):
        for i, parameter in enumerate(group["params"]):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                found[names.get(id(parameter), f"group{g}.{i}")] = parameter
    return found
