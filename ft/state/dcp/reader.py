"""Reads for dcp.load: what a rank needs becomes a plan over all heads."""

from __future__ import annotations

import io
import os
from typing import Any

import torch
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
)
from torch.futures import Future

from holdfast.errors import ConfigError
from holdfast.ft.state.dcp.naming import BYTES, PATHS, is_place
from holdfast.ft.state.files.manifest import Manifest
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Place, place
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.fill import Fill
from holdfast.ft.state.layout.local import Local, Replica
from holdfast.ft.state.layout.plan import Index, index


class StateReader(StorageReader):
    """Read states for ``dcp.load``, in any number of ranks and any layout.

    Every byte has the hash that it was written with, or the load fails with the file and the tile.
    States of `Snapshots` can be read, too: their tensors have dots in place of slashes.

    Parameters
    ----------
    url : str
        Where a run's states are, as for `StateWriter`.
    step : int, optional
        Which state. Default: the newest.

    Raises
    ------
    ConfigError
        For a scheme that is unknown, or whose package is not installed.
    """

    def __init__(self, url: str | os.PathLike[str], *, step: int | None = None) -> None:
        super().__init__()
        self._place: Place = place(os.fspath(url))
        self._step = step
        self._saved: Saved | None = None
        self._index: Index | None = None
        self._names: dict[str, str] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a load.

        Parameters
        ----------
        checkpoint_id : str, optional
            From where; default: as before.
        """
        if checkpoint_id:
            self._place = place(os.fspath(checkpoint_id))
        self._saved = self._index = None

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what there is, from all ranks' heads.

        Parameters
        ----------
        *args, **kwargs : object
            Torch's; not read.

        Returns
        -------
        Metadata
            Each tensor as one whole, however it lies in files.

        Raises
        ------
        ConfigError
            When there is no state, or none of that step.
        ProtocolError
            When a file is missing or damaged.
        """
        saved, found = self._opened()
        entries: dict[str, Any] = {}
        for name in found.names:
            entry = found.entries[name][0][1]
            if name.startswith(BYTES):
                entries[name[len(BYTES) :]] = BytesStorageMetadata()
                continue
            shape = torch.Size(entry.shape)
            whole = ChunkStorageMetadata(torch.Size([0] * len(shape)), shape)
            kind = TensorProperties(dtype=getattr(torch, entry.dtype))
            entries[_flat_name(name, saved.manifest)] = TensorStorageMetadata(kind, shape, [whole])
        self._names = {_flat_name(name, saved.manifest): name for name in found.names}
        paths = saved.manifest.code.get(PATHS)
        planner = {k: tuple(path) for k, path in paths.items()} if isinstance(paths, dict) else None
        return Metadata(entries, planner_data=planner, storage_meta=StorageMeta(self._place.url))

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Read the heads, where another rank has read the metadata.

        Parameters
        ----------
        metadata : Metadata
            What `read_metadata` returned, on some rank.
        is_coordinator : bool
            Not read.
        *args, **kwargs : object
            Torch's; not read.
        """
        saved, found = self._opened()
        self._names = {_flat_name(name, saved.manifest): name for name in found.names}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is.

        Parameters
        ----------
        plan : LoadPlan
            This rank's.
        """
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are.

        Parameters
        ----------
        plans : list of LoadPlan
            By rank.
        """
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what a rank needs.

        Parameters
        ----------
        plan : LoadPlan
            Which regions of which tensors.
        planner : LoadPlanner
            Has the tensors that are written.

        Returns
        -------
        torch.futures.Future
            Done.
        """
        saved, found = self._opened()
        targets: list[tuple[Any, torch.Tensor]] = []
        locals_: list[Local] = []
        for item in plan.items:
            name = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(_blob(saved, found, BYTES + name)))
                continue
            entry = found.entries[self._names[name]][0][1]
            target = planner.resolve_tensor(item).detach()
            start = item.storage_index.offset or (0,) * len(entry.shape)
            region = Box(tuple(item.storage_offsets), tuple(item.lengths)).moved(tuple(start))
            targets.append((item, target))
            one = Replica(0, 1)
            locals_.append(
                Local(entry.name, entry.dtype, entry.shape, target, (region,), (target,), one)
            )
        fill = Fill(locals_, found)
        for reading in fill.readings:
            fill.put(reading.rank, saved.gather(reading))
        for item, target in targets:
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether something is a place of files.

        Parameters
        ----------
        checkpoint_id : str
            A URL or path.
        """
        return is_place(checkpoint_id)

    def _opened(self) -> tuple[Saved, Index]:
        if self._saved is None or self._index is None:
            self._saved = _state_of(self._place, self._step)
            self._index = index(self._saved.heads())
        return self._saved, self._index


def _blob(saved: Saved, found: Index, name: str) -> bytes:
    if name not in found.entries:
        raise ConfigError(
            f"{saved.url}: what {name[len(BYTES) :]!r} is besides tensors is not there for "
            "dcp.load; holdfast state export --to dcp writes it"
        )
    rank, entry = found.entries[name][0]
    return saved.part(rank, entry.at, entry.nbytes)


def _flat_name(name: str, manifest: Manifest) -> str:
    """Return a tensor's name for DCP: that of its flat state dict."""
    if PATHS in manifest.code or name.startswith((BYTES, "rank/")):
        return name
    return name.replace("/", ".").replace("%2F", "/").replace("%25", "%")


def _state_of(where: Place, step: int | None) -> Saved:
    found = []
    for saved in states(where):
        if step is None or saved.manifest.step == step:
            return saved
        found.append(saved.manifest.step)
    what = "no state" if step is None else f"no state of step {step}; accepted: {found}"
    raise ConfigError(f"{where.url}: {what}")
