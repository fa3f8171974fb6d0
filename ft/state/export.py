"""A state in files as others have states: one whole tensor for each name, without Holdfast.

Shared tensors are put together from all ranks' files. What each rank had of its own is below
``ranks``, by rank and path: a loader's position, generators.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from holdfast.errors import ConfigError
from holdfast.ft.state.dcp.naming import BYTES, PATHS
from holdfast.ft.state.files import direct, rests
from holdfast.ft.state.files.saved import Saved
from holdfast.ft.state.layout.dtypes import ITEM_BYTES, SAFETENSORS
from holdfast.ft.state.layout.fill import Fill
from holdfast.ft.state.layout.leaf import Leaf, Packed, Part, joined, keys_of, own_name
from holdfast.ft.state.layout.local import Replica, of_plain
from holdfast.ft.state.layout.plan import Index, index

FORMATS = ("dcp", "safetensors", "torch")


class Export:
    """A state that is being exported.

    Parameters
    ----------
    saved : Saved
        The state.
    part : str
        A path; only what is below it is exported, without it. Empty: all.
    trust : bool
        Whether its pickles may have anything in them.
    """

    def __init__(self, saved: Saved, part: str = "", trust: bool = False) -> None:
        self._saved, self._part, self._trust = saved, part, trust
        self._index: Index = index(saved.heads())
        self._is_dcp = PATHS in saved.manifest.code

    def write(self, kind: str, out: Path) -> None:
        """Write the state.

        Parameters
        ----------
        kind : str
            One of `FORMATS`.
        out : pathlib.Path
            A folder for dcp, a file for the others; it must not be there.

        Raises
        ------
        ConfigError
            When it is there, nothing is below the part, or the rest has classes of others.
        ProtocolError
            When a tile is damaged.
        """
        if kind not in FORMATS:
            raise ConfigError(f"--to {kind}; accepted: {', '.join(FORMATS)}")
        if out.exists():
            raise ConfigError(f"{out}: is there already; accepted: a new name")
        out.parent.mkdir(parents=True, exist_ok=True)
        if kind == "safetensors":
            direct.write(out, self._safetensors())
        elif kind == "torch":
            torch.save(self.nested(), out)
        else:
            dcp.save(self.nested(), checkpoint_id=str(out), no_dist=True)

    # ---- tensors ---------------------------------------------------------------------------------

    def tensor(self, name: str) -> torch.Tensor:
        """Return a whole tensor.

        Parameters
        ----------
        name : str
            As heads have it.
        """
        entry = self._index.entries[name][0][1]
        whole = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
        fill = Fill([of_plain(name, whole, Replica(0, 1))], self._index)
        for reading in fill.readings:
            fill.put(reading.rank, self._saved.gather(reading))
        return whole

    def _names(self) -> list[tuple[str, str]]:
        """Return names in heads, and in what is exported, of shared tensors."""
        found = []
        for name in self._index.names:
            if name.startswith((BYTES, "rank/")):
                continue
            prefix = self._part + ("." if self._is_dcp else "/") if self._part else ""
            if name.startswith(prefix):
                short = name[len(prefix) :]
                found.append((name, short if self._is_dcp else ".".join(keys_of(short))))
        if not found:
            raise ConfigError(
                f"{self._saved.url}: no tensor below {self._part!r}; accepted: "
                f"{sorted({name.split('/')[0] for name in self._index.names})[:16]}"
            )
        return found

    def _safetensors(self) -> Iterator[bytes]:
        table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        names = self._names()
        for name, short in names:
            entry = self._index.entries[name][0][1]
            kind, parts = SAFETENSORS[entry.dtype]
            shape = [*entry.shape] if parts == 1 else [*entry.shape, parts]
            count = 1
            for length in entry.shape:
                count *= length
            size = count * ITEM_BYTES[entry.dtype]
            table[short] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        text = json.dumps(table).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        yield len(text).to_bytes(8, "little") + text
        for name, _ in names:
            yield self.tensor(name).reshape(-1).view(torch.uint8).numpy().tobytes()

    # ---- all of it -------------------------------------------------------------------------------

    def nested(self) -> dict[str, Any]:
        """Return the state as nested dictionaries, as the user gave it."""
        whole: Any = self._nested_dcp() if self._is_dcp else self._nested()
        for key in keys_of(self._part) if self._part else ():
            if not isinstance(whole, dict) or key not in whole:
                raise ConfigError(f"{self._saved.url}: nothing below {self._part!r}")
            whole = whole[key]
        return whole if isinstance(whole, dict) else {self._part: whole}

    def _nested(self) -> dict[str, Any]:
        made = {name: self.tensor(name) for name in self._index.names if not name.startswith(BYTES)}
        whole: dict[str, Any] = {}
        ranks: dict[str, Any] = {}
        for rank in range(self._saved.manifest.world):
            what = f"{self._saved.url}, rank {rank}"
            tree = self._unpacked_rest(self._saved.rest(rank), what)
            own: dict[str, Any] = {}
            plain = {key: _unfolded(v, joined("", key), own, made, rank) for key, v in tree.items()}
            _merge(whole, {key: value for key, value in plain.items() if value is not _OWN})
            ranks[str(rank)] = own
        if any(ranks.values()):
            whole["ranks"] = ranks
        return whole

    def _unpacked_rest(self, data: bytes, what: str) -> Any:
        def unpack(tree: Any) -> Any:
            if isinstance(tree, Packed):
                return rests.loaded(tree.data, what, self._trust)
            if isinstance(tree, Part):
                return Part(tree.kind, unpack(tree.value))
            if type(tree) is dict:
                return {key: unpack(value) for key, value in tree.items()}
            return tree

        return unpack(rests.loaded(data, what, self._trust))

    def _nested_dcp(self) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        paths: Any = self._saved.manifest.code[PATHS]
        for name in self._index.names:
            short = name.removeprefix(BYTES)
            value: Any
            if name.startswith(BYTES):
                rank, entry = self._index.entries[name][0]
                data = self._saved.part(rank, entry.at, entry.nbytes)
                value = self._unpacked(data, short)
            else:
                value = self.tensor(name)
            _put(whole, paths.get(short, [short]), value)
        return {key: _lists(value) for key, value in whole.items()}

    def _unpacked(self, data: bytes, name: str) -> Any:
        try:
            return torch.load(io.BytesIO(data), weights_only=not self._trust)
        except Exception as error:
            raise ConfigError(
                f"{self._saved.url}: {name!r}: {str(error)[:200]}; accepted: what torch.load reads "
                "with weights_only; --trust reads it, and runs what whoever wrote it put there"
            ) from None


# What a rank has of its own, which is below "ranks".
_OWN = object()


def _unfolded(tree: Any, path: str, own: dict[str, Any], made: dict[str, Any], rank: int) -> Any:
    """Return a rest with tensors, without our classes; objects go to `own`."""
    if isinstance(tree, Leaf):
        found = made.get(own_name(rank, tree.name))
        return made.get(tree.name) if found is None else found
    if isinstance(tree, Part):
        inner = _unfolded(tree.value, path, own, made, rank)
        if tree.kind == "optimizer":
            return {
                "state": inner["state"],
                "param_groups": inner["param_groups"],
                **inner["extra"],
            }
        if tree.kind == "object":
            own[path] = inner
            return _OWN
        return inner
    if isinstance(tree, dict):
        pairs = ((k, _unfolded(v, joined(path, k), own, made, rank)) for k, v in tree.items())
        found = {key: value for key, value in pairs if value is not _OWN}
        return OrderedDict(found) if isinstance(tree, OrderedDict) else found
    if type(tree) in (list, tuple):
        values = (_unfolded(v, joined(path, str(i)), own, made, rank) for i, v in enumerate(tree))
        return type(tree)(value for value in values if value is not _OWN)
    return tree


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    """Add what is not there yet: ZeRO's ranks and pipelines have a part each."""
    for key, value in other.items():
        if key not in into:
            into[key] = value
        elif isinstance(into[key], dict) and isinstance(value, dict):
            _merge(into[key], value)


def _put(whole: dict[Any, Any], path: list[Any], value: Any) -> None:
    for key in path[:-1]:
        whole = whole.setdefault(key, {})
    whole[path[-1]] = value


def _lists(tree: Any) -> Any:
    """Return a tree in which dictionaries by number are lists, as they were."""
    if not isinstance(tree, dict):
        return tree
    inner = {key: _lists(value) for key, value in tree.items()}
    if inner and all(type(key) is int for key in inner):
        return [inner[key] for key in sorted(inner)]
    return inner
