"""A whole run in a checkpoint of torch: every member's part, for as many members or for others.

The rules for other members are in docs/guide/outer-steps.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from holdfast.errors import ConfigError
from holdfast.ft.outer import checkpoint
from holdfast.ft.outer.flat import Model
from holdfast.ft.outer.trainer import Trainer

Path = tuple[str | int, ...]


def save_run(
    path: str | os.PathLike[str], trainer: Trainer, model: Model, group: Any = None
) -> None:
    """Save a run by torch.distributed.checkpoint, after any local step; collective.

    Parameters
    ----------
    path : str or os.PathLike
        A folder that all members reach.
    trainer : Trainer
        With its inner optimiser, and its ledger if it has one.
    model : torch.nn.Module or mapping of str to torch.Tensor
        With buffers, which each member has its own.
    group : ProcessGroup, optional
        Of these members; None: torch's default group, or none where this process is alone.

    Raises
    ------
    ConfigError
        Of a trainer with a `Site`.
    """
    if trainer.is_in_site:
        raise ConfigError(
            "save_run() of a trainer with a Site, whose ranks share other shards under the same "
            "names; accepted: each rank saves trainer.state_dict() by itself, beside the model and "
            "the inner optimiser of the site, which torch.distributed.checkpoint takes"
        )
    whole = trainer.state_dict()
    (rank,) = whole["own"]
    own = {"model": _tensors(model), "inner": trainer.inner.state_dict()}
    state = {"trainer": whole, "local": {rank: own}}
    dcp.save(state, checkpoint_id=path, process_group=group)


def load_run(
    path: str | os.PathLike[str], trainer: Trainer, model: Model, group: Any = None
) -> None:
    """Go on with a run that `save_run` has saved, in as many members or in others; collective.

    In as many, it has the bits of a run that was not stopped. A rank that was not there begins as a
    newcomer does, with the inner moments and the buffers of another one; what a rank that is not
    there now has not sent is dropped, its samples are leased again, and what it owes is added to
    what another one owes.

    Call it before ``trainer.advance(each_round=True)``.

    Parameters
    ----------
    path : str or os.PathLike
        The folder.
    trainer : Trainer
        Made as the saved one was; a ledger is attached.
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its model; written in place.
    group : ProcessGroup, optional
        As in `save_run`.

    Raises
    ------
    ConfigError
        When there is no run in the folder, and for the run of another trainer.
    """
    metadata = _metadata(path)
    paths: Mapping[str, Path] = metadata.planner_data or {}
    was = sorted({int(at[2]) for at in paths.values() if at[:2] == ("trainer", "own")})
    if not was:
        raise ConfigError(f"path = {os.fspath(path)!r} has no run; accepted: what save_run() wrote")
    ours = trainer.state_dict()
    (key,) = ours["own"]
    rank, members = int(key), ours["members"]
    source = str(rank if rank in was else was[rank % len(was)])
    owing = {str(gone) for gone in checkpoint.left_by(was, members, rank)}
    chosen = [name for name, at in paths.items() if _is_needed(at, key, source, owing)]
    state = _read(path, metadata, chosen, group)
    state["trainer"].setdefault("own", {})
    checkpoint.refuse_other(state["trainer"], trainer.settings())
    local = state["local"][source]
    _load_model(model, local["model"])
    inner = local["inner"]
    moments = {int(number): kept for number, kept in inner.get("state", {}).items()}
    trainer.inner.load_state_dict({"state": moments, "param_groups": inner["param_groups"]})
    trainer.load_state_dict(state["trainer"])


def _is_needed(at: Path, rank: str, source: str, owing: Collection[str]) -> bool:
    if at[0] == "local":
        return at[1] == source
    if at[1] != "own":
        return True
    return at[2] == rank or (at[2] in owing and checkpoint.is_owed(str(at[3])))


def _metadata(path: str | os.PathLike[str]) -> Metadata:
    try:
        return dcp.FileSystemReader(path).read_metadata()
    except OSError as error:
        raise ConfigError(
            f"path = {os.fspath(path)!r}: {error}; accepted: a folder that save_run() has written"
        ) from error


def _read(
    path: str | os.PathLike[str], metadata: Metadata, names: Sequence[str], group: Any
) -> dict[str, Any]:
    """Return what is saved under some names, nested as it was."""
    flat: dict[str, Any] = {}
    for name in names:
        entry = metadata.state_dict_metadata[name]
        flat[name] = None
        if isinstance(entry, TensorStorageMetadata):
            flat[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
    dcp.load(flat, checkpoint_id=path, process_group=group)
    root: dict[Any, Any] = {}
    for name, value in flat.items():
        *above, last = metadata.planner_data[name]
        place = root
        for step in above:
            place = place.setdefault(step, {})
        place[last] = value
    nested: dict[str, Any] = _with_lists(root)
    return nested


def _with_lists(value: Any) -> Any:
    """Return dictionaries as they were; those whose keys are numbers were lists."""
    if not isinstance(value, dict):
        return value
    whole = {key: _with_lists(each) for key, each in value.items()}
    is_list = bool(whole) and all(isinstance(key, int) for key in whole)
    return [whole[number] for number in sorted(whole)] if is_list else whole


def _tensors(model: Model) -> dict[str, Any]:
    return model.state_dict() if isinstance(model, torch.nn.Module) else dict(model)


def _load_model(model: Model, saved: Mapping[str, torch.Tensor]) -> None:
    if isinstance(model, torch.nn.Module):
        model.load_state_dict(saved)
    else:
        with torch.no_grad():
            checkpoint.copy("model", model, saved)
