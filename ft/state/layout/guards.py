"""Whether a model or an optimiser still has the tensors that it had: by identity, in microseconds.

A job saves the same tensors at every step. Finding their names and places again takes a tenth of a
millisecond each; to see that nothing has changed takes less than one microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import torch
from torch import nn

from holdfast.ft.state.layout.parameters import bare, inner_optimizer

Guard = Callable[[], bool]


def of_module(module: nn.Module) -> Guard | None:
    """Return a guard of a model's structure and tensors; None: it has to be walked each time.

    Parameters
    ----------
    module : torch.nn.Module
        Wrapped or not.
    """
    tables: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
    tensors: list[torch.Tensor] = []
    for inner in bare(module).modules():
        if type(inner).get_extra_state is not nn.Module.get_extra_state:
            return None
        for table in (inner._parameters, inner._buffers, inner._modules):
            tables.append((table, tuple(table.values())))
        for tensor in (*inner._parameters.values(), *inner._buffers.values()):
            if tensor is not None:
                tensors.append(tensor)
    places = _places(tensors)
    before = places()

    def holds() -> bool:
        return (
            all(
                len(table) == len(values) and all(map(is_, table.values(), values))
                for table, values in tables
            )
            and before == places()
        )

    return holds


def of_optimizer(optimizer: torch.optim.Optimizer) -> Guard | None:
    """Return a guard of an optimiser's parameters and state; None: it is to be walked each time.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Whose state are tensors alone, in the form that torch gives it.
    """
    optimizer = inner_optimizer(optimizer)
    hooks = optimizer._optimizer_state_dict_pre_hooks or optimizer._optimizer_state_dict_post_hooks
    if type(optimizer).state_dict is not torch.optim.Optimizer.state_dict or hooks:
        return None
    groups = [(group["params"], tuple(group["params"])) for group in optimizer.param_groups]
    kept: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
    for each in optimizer.state.values():
        if not all(isinstance(value, torch.Tensor) for value in each.values()):
            return None
        kept.append((each, tuple(each.values())))
    count = len(optimizer.state)
    tensors = [tensor for _, values in kept for tensor in values]
    places = _places(tensors)
    before = places()

    def holds() -> bool:
        now = optimizer.param_groups
        return (
            len(now) == len(groups)
            and len(optimizer.state) == count
            and all(
                len(group["params"]) == len(values) and all(map(is_, group["params"], values))
                for group, (_, values) in zip(now, groups, strict=True)
            )
            and all(map(is_, optimizer.state.values(), (table for table, _ in kept)))
            and all(
                len(table) == len(values) and all(map(is_, table.values(), values))
                for table, values in kept
            )
            and before == places()
        )

    return holds


def _places(tensors: Sequence[torch.Tensor]) -> Callable[[], list[int]]:
    """Return what tells where tensors' bytes are now."""
    plain = [tensor for tensor in tensors if not hasattr(tensor, "_local_tensor")]
    spread: list[Any] = [tensor for tensor in tensors if hasattr(tensor, "_local_tensor")]

    def now() -> list[int]:
        there = [tensor.data_ptr() for tensor in plain]
        return there + [tensor._local_tensor.data_ptr() for tensor in spread]

    return now
