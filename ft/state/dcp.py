"""Torch's dcp.save and dcp.load over our files: a safetensors file for each rank, a manifest last.

What DCP plans are boxes of global tensors, as entries are; so its plans become heads, and a load is
a plan of ours, which reads the bytes that are needed and checks every tile. What DCP pickles is
kept as it gives it, as bytes, so that reading a list or a head unpickles nothing.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.files import flush
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Place, place
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.capture import write
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.fill import Fill
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.layout.head import place as laid
from holdfast.ft.state.layout.local import Local, Replica
from holdfast.ft.state.layout.plan import Index, index

# Names of what DCP gives as bytes; no tensor of a state dict begins so.
_BYTES = "holdfast.bytes/"
_PATHS = "paths"


class StateWriter(StorageWriter):
    """Write what ``dcp.save`` and ``dcp.async_save`` save: files that prove themselves.

    Each rank writes one file, which the safetensors package reads; the manifest with the digests
    comes last, so that a save that was cut off is no state.

    Parameters
    ----------
    url : str
        Where a run's states are: ``file:///folder``, a path, or a URL that fsspec knows. A
        ``checkpoint_id`` of ``dcp.save`` is taken instead.
    step : int
        Of this state; it names its folder.
    job : str
        Whose it is.
    epoch : int
        For runs that count a step again after they went back.
    keep : int, optional
        States that stay, of those that verify; older ones are removed. Default: all.

    Raises
    ------
    ConfigError
        For a scheme that is unknown, or whose package is not installed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        step: int = 0,
        job: str = "",
        epoch: int = 0,
        keep: int | None = None,
    ) -> None:
        super().__init__()
        place(os.fspath(url))
        self._url = os.fspath(url)
        self._job, self._epoch, self._keep = job, epoch, keep
        self.step = step

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a save.

        Parameters
        ----------
        checkpoint_id : str, optional
            Where; default: as before.
        """
        if checkpoint_id:
            self._url = os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take note of a role; all ranks do the same, but for the manifest."""
        if not kwargs.get("use_collectives", True):
            raise ConfigError("use_collectives=False; accepted: True: the manifest tells of all")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Tell each rank which it is, and how many there are.

        Parameters
        ----------
        plans : list of SavePlan
            By rank.
        """
        count = len(plans)
        return [dataclasses.replace(p, storage_data=(k, count)) for k, p in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's file.

        Parameters
        ----------
        plan : SavePlan
            What is in it.
        planner : SavePlanner
            Has the tensors.
        """
        rank, world = plan.storage_data
        found = [_resolved(item, planner) for item in plan.items]
        places, end = laid([*(entry.nbytes for entry, _ in found), 0])
        body = bytearray(end)
        entries = []
        for (entry, tensor), at in zip(found, places[:-1], strict=True):
            entries.append(dataclasses.replace(entry, at=at))
            write(entries[-1], tensor, memoryview(body))
        head = Head(
            self._job, self.step, self._epoch, rank, world, tuple(entries), (places[-1], 0), end
        )
        # What another rank could not read back is refused before it is written.
        Head.from_bytes(head.to_bytes())
        file = flush.write_body(place(self._url), head, memoryview(body))
        results = [
            WriteResult(item.index, entry.nbytes, None)
            for item, entry in zip(plan.items, entries, strict=True)
        ]
        about = (file, head.to_bytes())
        results.append(WriteResult(MetadataIndex(file.name), file.nbytes, about))
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the manifest: the state is there from now on.

        Parameters
        ----------
        metadata : Metadata
            Of the planner: how a flat state dict becomes a nested one.
        results : list of list of WriteResult
            By rank.
        """
        told = [r.storage_data for each in results for r in each if r.storage_data is not None]
        files: list[File] = [file for file, _ in told]
        heads = sorted((Head.from_bytes(data) for _, data in told), key=lambda head: head.rank)
        paths = metadata.planner_data if isinstance(metadata.planner_data, Mapping) else {}
        code: dict[str, object] = {_PATHS: {name: [*path] for name, path in paths.items()}}
        whole = Manifest(
            self._job,
            self.step,
            self._epoch,
            len(heads),
            layout_digest(heads),
            tuple(sorted(files, key=lambda file: file.name)),
            code,
        )
        where = place(self._url)
        flush.commit(where, whole)
        if self._keep is not None:
            flush.prune(where, self._keep)

    def storage_meta(self) -> StorageMeta | None:
        """Return where it is saved."""
        return StorageMeta(checkpoint_id=self._url)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether something is a place of files.

        Parameters
        ----------
        checkpoint_id : str
            A URL or path.
        """
        return _is_place(checkpoint_id)


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
            if name.startswith(_BYTES):
                entries[name[len(_BYTES) :]] = BytesStorageMetadata()
                continue
            shape = torch.Size(entry.shape)
            whole = ChunkStorageMetadata(torch.Size([0] * len(shape)), shape)
            kind = TensorProperties(dtype=getattr(torch, entry.dtype))
            entries[_flat_name(name, saved.manifest)] = TensorStorageMetadata(kind, shape, [whole])
        self._names = {_flat_name(name, saved.manifest): name for name in found.names}
        paths = saved.manifest.code.get(_PATHS)
        planner = {k: tuple(path) for k, path in paths.items()} if isinstance(paths, dict) else None
        return Metadata(entries, planner_data=planner, storage_meta=StorageMeta(self._place.url))

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Read the heads, where another rank has read the metadata."""
        saved, found = self._opened()
        self._names = {_flat_name(name, saved.manifest): name for name in found.names}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what a rank needs.

        Parameters
        ----------
        plan : LoadPlan
            Which regions of which tensors.
        planner : LoadPlanner
            Has the tensors that are written.
        """
        saved, found = self._opened()
        targets: list[tuple[Any, torch.Tensor]] = []
        locals_: list[Local] = []
        for item in plan.items:
            name = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(_blob(saved, found, _BYTES + name)))
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
        return _is_place(checkpoint_id)

    def _opened(self) -> tuple[Saved, Index]:
        if self._saved is None or self._index is None:
            self._saved = _state_of(self._place, self._step)
            self._index = index(self._saved.heads())
        return self._saved, self._index


def _resolved(item: WriteItem, planner: SavePlanner) -> tuple[Entry, torch.Tensor]:
    """Return what is to be written of an item, at no place yet."""
    name = item.index.fqn
    data = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        assert isinstance(data, io.BytesIO)
        raw = torch.frombuffer(bytearray(data.getbuffer()), dtype=torch.uint8)
        size = (raw.numel(),)
        return Entry(_BYTES + name, "uint8", size, (0,), size, 0, raw.numel(), 0), raw
    assert isinstance(data, torch.Tensor)
    assert item.tensor_data is not None
    dtype = str(data.dtype)[6:]
    if dtype not in ITEM_BYTES or data.layout != torch.strided:
        raise ConfigError(
            f"state {name!r}: {data.dtype}, {data.layout}; accepted: strided tensors of "
            f"{', '.join(ITEM_BYTES)}"
        )
    chunk = item.tensor_data.chunk
    shape = tuple(item.tensor_data.size)
    box = Box(tuple(chunk.offsets), tuple(chunk.sizes))
    view = data.detach().reshape(box.size)
    return Entry(name, dtype, shape, box.offset, box.size, 0, box.count, 0), view


def _blob(saved: Saved, found: Index, name: str) -> bytes:
    if name not in found.entries:
        raise ConfigError(
            f"{saved.url}: what {name[len(_BYTES) :]!r} is besides tensors is not there for "
            "dcp.load; holdfast state export --to dcp writes it"
        )
    rank, entry = found.entries[name][0]
    return saved.part(rank, entry.at, entry.nbytes)


def _flat_name(name: str, manifest: Manifest) -> str:
    """Return a tensor's name for DCP: that of its flat state dict."""
    if _PATHS in manifest.code or name.startswith((_BYTES, "rank/")):
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


def _is_place(checkpoint_id: str | os.PathLike[str]) -> bool:
    try:
        place(os.fspath(checkpoint_id))
    except (ConfigError, ProtocolError):
        return False
    return True
