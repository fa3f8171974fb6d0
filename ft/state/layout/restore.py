"""A saved state into what is there now: any number of ranks and any layout to any other.

Tensors are written in place where there are any. An optimiser that has made no state yet gets it as
it was saved; what is a rank's own comes from the image of the same rank, or of its rank modulo the
number that saved.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, zeros

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.layout import owed
from holdfast.ft.state.layout.fill import Fill
from holdfast.ft.state.layout.flatten import Flat, Walker, has_state
from holdfast.ft.state.layout.leaf import Leaf, Packed, Part, joined, keys_of, own_name
from holdfast.ft.state.layout.load import load
from holdfast.ft.state.layout.local import Local, Replica, of_dtensor, of_plain
from holdfast.ft.state.layout.parameters import (
    inner_optimizer,
    modules_of,
    named_parameters,
    parameter_names,
)
from holdfast.ft.state.layout.plan import Index, Wanted, refuse_other

_ALONE = Replica(0, 1)


class Restore:
    """A restore of one rank: what it needs, and what becomes of it.

    First the bytes that `readings` names are `put`, and the pickled rests of `rests`; then `finish`
    loads what is no tensor.

    Parameters
    ----------
    state : mapping of str to object
        What is there now, made as it was when it was saved.
    saved : Index
        All heads of the snapshot.
    rank, world : int
        This rank, and how many there are now.
    check : bool
        Whether what this rank does not need is another model's. Where ranks have parts of a model
        (ZeRO, pipelines), they tell each other their `names`, and `refuse_unknown` is called then.

    Raises
    ------
    ConfigError
        For another model's state, with the first difference.
    ProtocolError
        When images lack something.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        saved: Index,
        rank: int,
        world: int,
        *,
        check: bool = True,
    ) -> None:
        self._state, self._saved = state, saved
        self._rank, self._world = rank, world
        self.source = rank if rank < saved.world else rank % saved.world
        self._names = parameter_names(modules_of(state))
        #: Tensors by name, and what they become.
        self._made: dict[str, torch.Tensor] = {}
        self._locals: dict[str, Local] = {}
        walker = Walker(self._names)
        flat = _shared_only(walker, state)
        for name, tensor in flat.tensors.items():
            self._want(name, tensor)
        self._optimizers()
        self._own(self.source, lambda _name: True)
        self._gone = owed.left_by(saved.world, world, rank)
        for gone in self._gone:
            self._own(gone, owed.is_owed)
        if check:
            self.refuse_unknown()
        self.fill = Fill([*self._locals.values()], saved, self.source)

    @property
    def names(self) -> list[str]:
        """What is needed, as `refuse_unknown` takes it."""
        return [*self._locals]

    @property
    def rests(self) -> dict[int, tuple[int, int]]:
        """Where the pickled rests that are needed lie in bodies: (place, bytes), by rank."""
        return {r: self._saved.heads[r].objects for r in (self.source, *self._gone)}

    def finish(self, rests: Mapping[int, bytes | memoryview]) -> None:
        """Load what is no tensor, once all bytes are there.

        Parameters
        ----------
        rests : mapping of int to bytes-like
            By rank, those of `rests`. They are unpickled: they must come from this job.

        Raises
        ------
        ProtocolError
            When a rank's bytes have not come, or the rest is damaged.
        """
        if self.fill.left:
            raise ProtocolError(f"bytes of ranks {self.fill.left} have not come; put() them before")
        trees = {r: _unpickled(rests[r], r) for r in self.rests}
        resolved = {r: self._resolve(tree, r) for r, tree in trees.items()}
        mine = resolved[self.source]
        if self._rank >= self._saved.world:
            mine = owed.without_debts(mine)
        for gone in self._gone:
            owed.adopt(mine, resolved[gone], gone)
        load(self._state, mine, self._names, self._made)

    # ---- what is needed --------------------------------------------------------------------------

    def _want(self, name: str, tensor: torch.Tensor) -> None:
        is_spread = isinstance(tensor, DTensor)
        if isinstance(tensor, DTensor):
            local = of_dtensor(name, tensor)
        else:
            local = of_plain(name, tensor, _ALONE)
        there = self._saved.entries.get(name)
        own = own_name(self.source, name)
        if there is None and not is_spread and own in self._saved.entries:
            # Ranks had it in different shapes, so that each one's was its own.
            return
        refuse_other(Wanted(name, local.dtype, local.shape, ()), there)
        self._made[name] = tensor
        self._locals[name] = local

    def _optimizers(self) -> None:
        for path, optimizer in optimizers_of(self._state):
            optimizer = inner_optimizer(optimizer)
            on_device = {
                id(p)
                for group in optimizer.param_groups
                for p in group["params"]
                if group.get("fused") or group.get("capturable")
            }
            for name, parameter in named_parameters(optimizer, self._names).items():
                counters = parameter.device if id(parameter) in on_device else torch.device("cpu")
                prefix = joined(joined(path, "state"), name)
                kept = optimizer.state.get(parameter, {})
                for full in self._saved.below(f"{prefix}/"):
                    key = keys_of(full[len(prefix) + 1 :])[0]
                    there = kept.get(key) if full == joined(prefix, key) else None
                    self._want(full, self._like(full, there, parameter, counters))

    def _like(
        self, name: str, there: Any, parameter: torch.Tensor, counters: torch.device
    ) -> torch.Tensor:
        """Return the tensor to be filled: the one that is there, or one as its parameter is."""
        entry = self._saved.entries[name][0][1]
        dtype = getattr(torch, entry.dtype)
        fits = isinstance(there, torch.Tensor) and tuple(there.shape) == entry.shape
        if fits and there.dtype == dtype:
            return torch.Tensor.detach(there)
        if entry.shape == tuple(parameter.shape) and entry.shape:
            return torch.zeros_like(parameter.detach(), dtype=dtype)
        # A counter, or factors of a tensor.
        device = counters if not entry.shape else parameter.device
        spread = {e.box for _, e in self._saved.entries[name]}
        if isinstance(parameter, DTensor) and entry.shape and len(spread) > 1:
            places = [
                Shard(0) if isinstance(p, Shard) and p.dim == 0 else Replicate()
                for p in parameter.placements
            ]
            mesh = parameter.device_mesh
            return zeros(*entry.shape, dtype=dtype, device_mesh=mesh, placements=places)
        return torch.zeros(entry.shape, dtype=dtype, device=device)

    def _own(self, rank: int, takes: Any) -> None:
        prefix = own_name(rank, "")
        for name in self._saved.below(prefix):
            if takes(name[len(prefix) :]):
                entry = self._saved.entries[name][0][1]
                tensor = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
                self._made[name] = tensor
                self._locals[name] = of_plain(name, tensor, _ALONE)

    def refuse_unknown(self, others: Iterable[str] = ()) -> None:
        """Refuse what was saved and nobody needs.

        Parameters
        ----------
        others : iterable of str
            What other ranks need.

        Raises
        ------
        ConfigError
            For another model's state, with the first such tensor.
        """
        known = {*self._locals, *others}
        for name in self._saved.names:
            if name not in known and not name.startswith("rank/"):
                raise ConfigError(
                    f"another model's state: it has a tensor {name!r}, which is not here; make "
                    "model and optimizer as they were made when it was saved"
                )

    # ---- what becomes of it ----------------------------------------------------------------------

    def _resolve(self, tree: Any, rank: int) -> Any:
        """Return a rest with tensors in place of leaves; Leaf stays where one is not here."""
        if isinstance(tree, Packed):
            tree = _unpickled(tree.data, rank)
        if isinstance(tree, Leaf):
            own = self._made.get(own_name(rank, tree.name))
            found = self._made.get(tree.name) if own is None else own
            if found is None:
                return tree
            if own is not None and tree.device != "cpu" and _has_device(tree.device):
                return own.to(tree.device)
            return found
        if isinstance(tree, Part):
            return Part(tree.kind, self._resolve(tree.value, rank))
        if isinstance(tree, dict):
            inner = {key: self._resolve(value, rank) for key, value in tree.items()}
            return inner if type(tree) is dict else type(tree)(inner)
        if type(tree) in (list, tuple):
            return type(tree)(self._resolve(value, rank) for value in tree)
        return tree


def optimizers_of(state: Any, path: str = "") -> list[tuple[str, torch.optim.Optimizer]]:
    """Return all optimisers of a state, with their paths.

    Parameters
    ----------
    state : object
        A state, or a part of it.
    path : str
        Of the part.
    """
    if isinstance(state, torch.optim.Optimizer):
        return [(path, state)]
    items: Any = ()
    if isinstance(state, Mapping):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = ((str(i), value) for i, value in enumerate(state))
    return [found for key, value in items for found in optimizers_of(value, joined(path, key))]


def _shared_only(walker: Walker, state: Mapping[str, Any]) -> Flat:
    """Walk over what is written in place: all but optimisers' state and what is a rank's own."""

    def visit(value: Any, path: str) -> None:
        if isinstance(value, torch.optim.Optimizer):
            for g, group in enumerate(inner_optimizer(value).param_groups):
                where = joined(joined(path, "param_groups"), str(g))
                for key, each in group.items():
                    if key != "params":
                        visit(each, joined(where, key))
        elif isinstance(value, torch.Tensor | nn.Module):
            walker.walk(value, path)
        elif type(value) in (dict, OrderedDict):
            for key, each in value.items():
                visit(each, joined(path, key))
        elif type(value) in (list, tuple):
            for i, each in enumerate(value):
                visit(each, joined(path, str(i)))
        elif has_state(value):
            walker.walk(value, path)

    for key, value in state.items():
        visit(value, joined("", key))
    for name in walker.flat.own:
        del walker.flat.tensors[name]
    return walker.flat


def _unpickled(rest: bytes | memoryview, rank: int) -> Any:
    try:
        return pickle.loads(rest)
    except Exception as error:
        raise ProtocolError(f"the rest of rank {rank}'s image is damaged: {error}") from None


def _has_device(kind: str) -> bool:
    return kind == "cuda" and torch.cuda.is_available()
