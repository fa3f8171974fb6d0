"""What makes files a state: which there are, whose, and the digest of each one's table.

A table has the hashes of its file's tiles, so a manifest of a few hundred bytes vouches for all.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import xxhash

from holdfast.errors import ProtocolError
from holdfast.ft.state.layout.entry import MAX_SIZE, number
from holdfast.ft.state.layout.head import MAX_JOB, MAX_RANKS, read_json

NAME = "manifest.json"
FORMAT = 1
_MAX_BYTES = 64 << 20
_FILE = re.compile(r"rank-(\d{5,7})\.(safetensors|parity)")
_FOLDER = re.compile(r"step-(\d{6,18})-epoch-(\d{1,18})")
_DIGEST = re.compile(r"[0-9a-f]{32}")
_KEYS = {"format", "job", "step", "epoch", "world", "layout", "code", "files", "digest"}


@dataclass(frozen=True, slots=True)
class File:
    """One file of a state.

    Parameters
    ----------
    name : str
        ``rank-00003.safetensors`` or ``rank-00003.parity``.
    nbytes : int
        Its length.
    table : str
        XXH3-128 of what stands before its data.
    """

    name: str
    nbytes: int
    table: str

    @property
    def rank(self) -> int:
        """Whose it is."""
        return int(self.name[5:].partition(".")[0])

    @property
    def is_parity(self) -> bool:
        """Whether it has parity, not a body."""
        return self.name.endswith(".parity")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A state in files.

    Parameters
    ----------
    job : str
        Whose.
    step, epoch, world : int
        Which, and of how many ranks.
    layout : str
        Digest of the layout of all images.
    files : tuple of File
        Sorted by name.
    code : dict
        What is needed to put lost files together: whole numbers, texts and lists.
    """

    job: str
    step: int
    epoch: int
    world: int
    layout: str
    files: tuple[File, ...]
    code: dict[str, object] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Name of the folder that it is in."""
        return folder_name(self.step, self.epoch)

    def file_of(self, rank: int) -> File:
        """Return the file with a rank's body.

        Parameters
        ----------
        rank : int
            Whose.
        """
        name = body_name(rank)
        for file in self.files:
            if file.name == name:
                return file
        raise ProtocolError(f"manifest of step {self.step}: has no {name}")

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        said = self._said()
        return json.dumps({**said, "digest": _digest(said)}, indent=1).encode() + b"\n"

    def _said(self) -> dict[str, object]:
        files = [{"name": f.name, "bytes": f.nbytes, "table": f.table} for f in self.files]
        return {
            "format": FORMAT,
            "job": self.job,
            "step": self.step,
            "epoch": self.epoch,
            "world": self.world,
            "layout": self.layout,
            "code": self.code,
            "files": files,
        }

    @classmethod
    def from_bytes(cls, data: bytes, what: str = NAME) -> Manifest:
        """Read a manifest of bytes that need not be one.

        Parameters
        ----------
        data : bytes
            From wherever.
        what : str
            For messages.

        Raises
        ------
        ProtocolError
            With what is wrong.
        """
        value = read_json(data, _MAX_BYTES, what)
        if not isinstance(value, dict) or value.keys() != _KEYS:
            raise ProtocolError(f"{what}: accepted: an object with {sorted(_KEYS)}")
        digest = value.pop("digest")
        if value["format"] != FORMAT:
            raise ProtocolError(f"{what}: format {str(value['format'])[:40]}; accepted: {FORMAT}")
        if digest != _digest(value):
            raise ProtocolError(f"{what}: is damaged: it has not the digest that it says")
        rows, code = value["files"], value["code"]
        if not isinstance(rows, list) or not isinstance(code, dict):
            raise ProtocolError(f"{what}: files is no list, or code no object")
        job, layout = value["job"], value["layout"]
        if not isinstance(job, str) or len(job) > MAX_JOB or not isinstance(layout, str):
            raise ProtocolError(f"{what}: job and layout are no texts")
        world = number(value["world"], f"{what}: world", MAX_RANKS)
        files = tuple(_file(row, what) for row in rows)
        names = [file.name for file in files]
        if len({*names}) != len(names) or any(file.rank >= world for file in files):
            raise ProtocolError(f"{what}: files twice, or of ranks beyond {world}: {names[:8]}")
        if not {body_name(rank) for rank in range(world)} <= {*names}:
            raise ProtocolError(f"{what}: has not the files of all {world} ranks")
        step = number(value["step"], f"{what}: step")
        return cls(job, step, number(value["epoch"], what), world, layout, files, code)


def body_name(rank: int) -> str:
    """Return the name of the file with a rank's body.

    Parameters
    ----------
    rank : int
        Whose.
    """
    return f"rank-{rank:05d}.safetensors"


def parity_name(rank: int) -> str:
    """Return the name of the file with the parity that a rank holds.

    Parameters
    ----------
    rank : int
        Who holds it.
    """
    return f"rank-{rank:05d}.parity"


def folder_name(step: int, epoch: int) -> str:
    """Return the name of a state's folder.

    Parameters
    ----------
    step, epoch : int
        Which state. A run that went back counts its steps again, in another epoch.
    """
    return f"step-{step:06d}-epoch-{epoch}"


def of_folder(name: str) -> tuple[int, int] | None:
    """Return step and epoch of a folder's name; None: it is another folder.

    Parameters
    ----------
    name : str
        Of the folder.
    """
    match = _FOLDER.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def _file(row: object, what: str) -> File:
    if not isinstance(row, dict) or row.keys() != {"name", "bytes", "table"}:
        raise ProtocolError(f"{what}: a file has not name, bytes and table")
    name, table = row["name"], row["table"]
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise ProtocolError(f"{what}: file {str(name)[:60]!r}; accepted: rank-00000.safetensors")
    if not isinstance(table, str) or not _DIGEST.fullmatch(table):
        raise ProtocolError(f"{what}: file {name} has no digest of its table")
    return File(name, number(row["bytes"], f"{what}: bytes of {name}", MAX_SIZE), table)


def _digest(said: object) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(said, sort_keys=True).encode())
