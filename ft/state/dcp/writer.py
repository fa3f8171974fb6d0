"""Writes for dcp.save: each rank's plan becomes a head and a body."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint import StorageWriter
from torch.distributed.checkpoint.metadata import (
    Metadata,
    MetadataIndex,
    StorageMeta,
)
from torch.distributed.checkpoint.planner import (
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from holdfast.errors import ConfigError
from holdfast.ft.state.dcp.naming import BYTES, PATHS, is_place
from holdfast.ft.state.files import flush
from holdfast.ft.state.files.manifest import File, Manifest
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.capture import write
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.layout.head import place as laid


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
        """Take note of a role; all ranks do the same, but for the manifest.

        Parameters
        ----------
        is_coordinator : bool
            Whether this rank writes the manifest.
        *args, **kwargs : object
            Torch's; ``use_collectives`` is read.

        Raises
        ------
        ConfigError
            For a save in which ranks do not talk.
        """
        if not kwargs.get("use_collectives", True):
            raise ConfigError("use_collectives=False; accepted: True: the manifest tells of all")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan as it is.

        Parameters
        ----------
        plan : SavePlan
            This rank's.
        """
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Tell each rank which it is, and how many there are.

        Parameters
        ----------
        plans : list of SavePlan
            By rank.

        Returns
        -------
        list of SavePlan
            With rank and number of ranks as their storage's data.
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

        Returns
        -------
        torch.futures.Future
            Done, with what was written.
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
        code: dict[str, object] = {PATHS: {name: [*path] for name, path in paths.items()}}
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
        return is_place(checkpoint_id)


def _resolved(item: WriteItem, planner: SavePlanner) -> tuple[Entry, torch.Tensor]:
    """Return what is to be written of an item, at no place yet."""
    name = item.index.fqn
    data = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        assert isinstance(data, io.BytesIO)
        raw = torch.frombuffer(bytearray(data.getbuffer()), dtype=torch.uint8)
        size = (raw.numel(),)
        return Entry(BYTES + name, "uint8", size, (0,), size, 0, raw.numel(), 0), raw
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
