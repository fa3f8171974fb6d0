"""What is said of an image's bytes: a head, as JSON, and the digest of a job's layout.

A head comes from another process or from a file, so its parser is total: any bytes are a head whose
entries lie in its body and overlap nowhere, or a ProtocolError that names what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xxhash

from holdfast.errors import ProtocolError
from holdfast.ft.state.layout.entry import ALIGNMENT, MAX_SIZE, Entry, aligned, number, parse

FORMAT = 1
# A tensor's entry takes about a hundred bytes: half a million tensors of one rank.
MAX_HEAD_BYTES = 64 << 20
MAX_ENTRIES = 1 << 20
MAX_RANKS = 1 << 20
MAX_JOB = 256
_KEYS = {"format", "job", "step", "epoch", "rank", "world", "body", "objects", "entries"}


@dataclass(frozen=True, slots=True)
class Head:
    """What one rank has of one snapshot.

    Parameters
    ----------
    job : str
        Whose it is.
    step, epoch : int
        At which step boundary, and in which view it was taken.
    rank, world : int
        Whose image, of how many.
    entries : tuple of Entry
        Tensors, in the order of their places.
    objects : tuple of int
        Where the pickled rest lies, and its length, in bytes.
    body : int
        Bytes of the body.
    """

    job: str
    step: int
    epoch: int
    rank: int
    world: int
    entries: tuple[Entry, ...]
    objects: tuple[int, int]
    body: int

    def to_bytes(self, rows: bytes | None = None) -> bytes:
        """Return it as JSON.

        Parameters
        ----------
        rows : bytes, optional
            What `rows_of` returns of the entries, where that is known already.
        """
        others = _json(
            {
                "format": FORMAT,
                "job": self.job,
                "step": self.step,
                "epoch": self.epoch,
                "rank": self.rank,
                "world": self.world,
                "body": self.body,
                "objects": [*self.objects],
            }
        )
        return b'%s,"entries":%s}' % (others[:-1], rows_of(self.entries) if rows is None else rows)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Head:
        """Read a head of bytes that need not be one.

        Parameters
        ----------
        data : bytes-like
            From wherever.

        Raises
        ------
        ProtocolError
            With what is wrong.
        """
        value = read_json(data, MAX_HEAD_BYTES, "head of an image")
        if not isinstance(value, dict) or value.keys() != _KEYS:
            keys = str(sorted(value)[:16])[:400] if isinstance(value, dict) else "none"
            raise ProtocolError(f"head of an image: has {keys}; accepted: {sorted(_KEYS)}")
        if value["format"] != FORMAT or type(value["format"]) is not int:
            raise ProtocolError(
                f"head of an image: format {str(value['format'])[:40]!r}; accepted: {FORMAT}; "
                "use the version of Holdfast that wrote it"
            )
        job = value["job"]
        if not isinstance(job, str) or len(job) > MAX_JOB:
            raise ProtocolError(f"head of an image: job is no text of at most {MAX_JOB} characters")
        world = number(value["world"], "head of an image: world", MAX_RANKS)
        objects = value["objects"]
        if not isinstance(objects, list) or len(objects) != 2:
            raise ProtocolError("head of an image: objects is no pair of numbers")
        rows = value["entries"]
        if not isinstance(rows, list) or len(rows) > MAX_ENTRIES:
            raise ProtocolError(f"head of an image: entries is no list of at most {MAX_ENTRIES}")
        head = cls(
            job,
            number(value["step"], "head of an image: step"),
            number(value["epoch"], "head of an image: epoch"),
            number(value["rank"], "head of an image: rank", max(0, world - 1)),
            world,
            tuple(parse(row, index) for index, row in enumerate(rows)),
            (
                number(objects[0], "head of an image: objects"),
                number(objects[1], "head of an image: objects"),
            ),
            number(value["body"], "head of an image: body"),
        )
        _refuse_overlaps(head)
        return head


def place(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Lay byte strings one after the other.

    Parameters
    ----------
    sizes : iterable of int
        Their lengths; the pickled rest is the last.

    Returns
    -------
    tuple of list of int and int
        Where each begins, and the length of all.
    """
    places = []
    end = 0
    for size in sizes:
        places.append(aligned(end))
        end = places[-1] + size
    return places, end


def rows_of(entries: Iterable[Entry]) -> bytes:
    """Return entries as JSON.

    Parameters
    ----------
    entries : iterable of Entry
        Of one head.
    """
    return _json([entry.to_list() for entry in entries])


def layout_digest(heads: Sequence[Head], rows: bytes | None = None) -> str:
    """Return the digest of where everything lies; with the same, tiles compare by index.

    Parameters
    ----------
    heads : sequence of Head
        Of all ranks, in their order. Job, step and epoch do not count, nor does the length of the
        rest, which lies behind all tensors.
    rows : bytes, optional
        What `rows_of` returns of the entries of a single head, where that is known already.

    Returns
    -------
    str
        XXH3-128, in hexadecimal digits.
    """
    digest = xxhash.xxh3_128()
    for head in heads:
        digest.update(_json([FORMAT, head.rank, head.world, head.objects[0]])[:-1])
        digest.update(b",%s]" % (rows_of(head.entries) if rows is None else rows))
    return digest.hexdigest()


def read_json(data: bytes | bytearray | memoryview, most: int, what: str) -> object:
    """Read JSON of bytes that need not be any: no floats, no name twice.

    Parameters
    ----------
    data : bytes-like
        From wherever.
    most : int
        Bytes that it may have.
    what : str
        For messages.

    Raises
    ------
    ProtocolError
        With what is wrong.
    """
    if len(data) > most:
        raise ProtocolError(f"{what}: {len(data)} bytes; accepted: at most {most}")
    try:
        return json.loads(
            bytes(data).decode(),
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
            object_pairs_hook=_once,
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what}: no JSON that it can be: {str(error)[:200]}") from None


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _refuse_number(text: str) -> object:
    raise ValueError(f"{text[:40]} is no whole number")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one name twice")
    return found


def _refuse_overlaps(head: Head) -> None:
    at, length = head.objects
    if at % ALIGNMENT or head.body > MAX_SIZE:
        raise ProtocolError(f"head of an image: objects at {at}, no multiple of {ALIGNMENT}")
    spans = [(entry.at, entry.nbytes, repr(entry.name[:80])) for entry in head.entries]
    spans.append((at, length, "the rest"))
    end, before = 0, "nothing"
    for start, size, name in sorted(span for span in spans if span[1]):
        if start < end:
            raise ProtocolError(f"head of an image: {name} at {start} lies in {before}")
        end, before = start + size, name
    if end > head.body:
        raise ProtocolError(
            f"head of an image: {before} ends at {end}, behind the body of {head.body} bytes"
        )
