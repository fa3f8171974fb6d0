"""A file with tensors that the safetensors package reads, and with all that Holdfast needs.

Eight bytes with the length of a JSON table, the table, and the data: here, a body as it is, so that
tiles, parity and ranges are the same in memory and in files. The format wants every byte named, so
gaps between tensors are tensors, too. A head and the hashes of tiles are in its metadata. Blanks
after the table let the data begin at a block. The format: github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from holdfast.errors import ProtocolError
from holdfast.ft.state.files.direct import BLOCK
from holdfast.ft.state.layout.dtypes import SAFETENSORS
from holdfast.ft.state.layout.entry import MAX_SIZE, Entry
from holdfast.ft.state.layout.head import Head, read_json

TILE = 1 << 20
# The format's own limit.
MAX_TABLE = 100_000_000
LENGTH_BYTES = 8
_HEX = 16
_HEAD = "holdfast.head"
_TILES = "holdfast.tiles"
_PARITY = "holdfast.parity"


@dataclass(frozen=True, slots=True)
class Table:
    """What stands before a file's data.

    Parameters
    ----------
    head : Head, optional
        Of a body; None: the data are parity.
    parity : dict, optional
        What was said of parity.
    tiles : tuple of int
        XXH3-64 of each tile of the data.
    begins : int
        Where the data begin, in bytes.
    nbytes : int
        Length of the data.
    """

    head: Head | None
    parity: dict[str, object] | None
    tiles: tuple[int, ...]
    begins: int
    nbytes: int


def hashes(data: memoryview | bytes) -> list[int]:
    """Return the XXH3-64 of each tile.

    Parameters
    ----------
    data : bytes-like
        Cut in tiles of 1 MiB; the last may be shorter.
    """
    view = memoryview(data).cast("B")
    return [xxhash.xxh3_64_intdigest(view[at : at + TILE]) for at in range(0, view.nbytes, TILE)]


def of_body(head: Head, tiles: Sequence[int]) -> bytes:
    """Return what stands before a body.

    Parameters
    ----------
    head : Head
        What the body is.
    tiles : sequence of int
        Hashes of its tiles.
    """
    table: dict[str, object] = {}
    end = 0
    entries = sorted(head.entries, key=lambda entry: (entry.at, entry.nbytes))
    for entry in entries:
        _pad(table, end, entry.at)
        kind, parts = SAFETENSORS[entry.dtype]
        shape = [*entry.size] if entry.count == entry.box.count else [entry.count]
        end = entry.at + entry.nbytes
        offsets = [entry.at, end]
        shape = shape if parts == 1 else [*shape, parts]
        table[stored_name(entry)] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
    at, length = head.objects
    _pad(table, end, at)
    if length:
        table["holdfast.rest"] = _raw(at, at + length)
    _pad(table, at + length, head.body)
    return _packed({_HEAD: head.to_bytes().decode(), _TILES: _hex(tiles)}, table)


def of_parity(said: dict[str, object], nbytes: int, tiles: Sequence[int]) -> bytes:
    """Return what stands before parity.

    Parameters
    ----------
    said : dict
        Of whom it is and by what code; whole numbers and texts.
    nbytes : int
        Its length.
    tiles : sequence of int
        Hashes of its tiles.
    """
    table: dict[str, object] = {"parity": _raw(0, nbytes)} if nbytes else {}
    return _packed({_PARITY: json.dumps(said), _TILES: _hex(tiles)}, table)


def stored_name(entry: Entry) -> str:
    """Return a tensor's name in a file: its own, with its place where it is a part.

    Parameters
    ----------
    entry : Entry
        Which.
    """
    if entry.is_whole:
        return entry.name
    place = ",".join(str(start) for start in entry.offset)
    ranged = "" if entry.count == entry.box.count else f":{entry.first}"
    return f"{entry.name}@{place}{ranged}"


def table_length(start: bytes, what: str) -> int:
    """Return how many bytes stand before the data.

    Parameters
    ----------
    start : bytes
        The file's first eight.
    what : str
        For messages.

    Raises
    ------
    ProtocolError
        For what is no such file.
    """
    length = int.from_bytes(start, "little")
    if len(start) != LENGTH_BYTES or not 2 <= length <= MAX_TABLE:
        raise ProtocolError(f"{what}: no safetensors file: a table of {length} bytes")
    return LENGTH_BYTES + length


def parse(data: bytes, what: str) -> Table:
    """Read what stands before the data.

    Parameters
    ----------
    data : bytes
        Length and table, as long as `table_length` says.
    what : str
        For messages.

    Raises
    ------
    ProtocolError
        For another file than those that are made here.
    """
    value = read_json(data[LENGTH_BYTES:], MAX_TABLE, what)
    said = value.get("__metadata__") if isinstance(value, dict) else None
    if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
        raise ProtocolError(f"{what}: no file of Holdfast; its table has no metadata")
    head, parity = None, None
    if _HEAD in said:
        head = Head.from_bytes(said[_HEAD].encode("utf-8", "replace"))
        nbytes = head.body
    elif _PARITY in said:
        read = read_json(said[_PARITY].encode("utf-8", "replace"), MAX_TABLE, what)
        end = _span_end(value)
        if not isinstance(read, dict) or end is None:
            raise ProtocolError(f"{what}: no parity of Holdfast")
        parity, nbytes = read, end
    else:
        raise ProtocolError(f"{what}: no file of Holdfast: {sorted(said)[:8]}; accepted: {_HEAD}")
    digits = said.get(_TILES, "")
    count = -(-nbytes // TILE)
    if len(digits) != _HEX * count or not set(digits) <= set("0123456789abcdef"):
        raise ProtocolError(f"{what}: {len(digits)} digits of hashes; accepted: {_HEX * count}")
    tiles = tuple(int(digits[at : at + _HEX], 16) for at in range(0, len(digits), _HEX))
    return Table(head, parity, tiles, len(data), nbytes)


def _span_end(table: object) -> int | None:
    """Return where parity ends by the table; None: it does not say."""
    row = table.get("parity", {}) if isinstance(table, dict) else None
    span = row.get("data_offsets", [0, 0]) if isinstance(row, dict) else None
    if not isinstance(span, list) or len(span) != 2 or span[0] != 0:
        return None
    end = span[1]
    return end if type(end) is int and 0 <= end <= MAX_SIZE else None


def _pad(table: dict[str, object], start: int, end: int) -> None:
    if end > start:
        table[f"holdfast.gap@{start}"] = _raw(start, end)


def _raw(start: int, end: int) -> dict[str, object]:
    return {"dtype": "U8", "shape": [end - start], "data_offsets": [start, end]}


def _hex(tiles: Sequence[int]) -> str:
    return "".join(f"{tile:016x}" for tile in tiles)


def _packed(said: dict[str, str], table: dict[str, object]) -> bytes:
    text = json.dumps({"__metadata__": said, **table}, separators=(",", ":")).encode()
    text = text.ljust(-(-(LENGTH_BYTES + len(text)) // BLOCK) * BLOCK - LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
