"""flight-record.md: the fields of a flight record, which native/health/flight_json.cpp writes."""

from __future__ import annotations

import re

from reference.fields import Field, sections
from reference.markdown import head, item, section
from reference.tree import root

TOP = """
What `holdfast.read_flight(path)`, `Group.flight()` and `/flight` give: the last 4096 ops of a
process ([flight-record.md](../operate/flight-record.md)). What is no flight record, or one of
another version, is refused with `ProtocolError`; of a damaged one, what can be read is there.
`tests/python/docs/test_reference.py` compares this page with a record.
"""

TITLES = {"": "Of the process", "entries[]": "`entries[]`: each op"}

FIELDS = [
    Field("version", "integer", "of the file's format, as below."),
    Field("pid", "integer", "of the process."),
    Field("member", "text", "its id among all members that ever were, 16 hexadecimal digits."),
    Field("rank", "integer", "its rank in the world; -1: none."),
    Field("host", "text", "the name of its host."),
    Field(
        "wall_offset_ns", "integer", "added to a time of an entry it gives nanoseconds since 1970."
    ),
    Field("ops", "integer", "ops begun so far."),
    Field("torn", "integer", "entries that were being written, and are left out."),
    Field("damaged", "integer", "entries that no writer writes, and are left out."),
    Field("truncated", "flag", "whether the end of the file is missing."),
    Field("groups", "object", "the names of the first 64 groups, by id."),
    Field("entries[]", "list", "the ops, the oldest first."),
    Field("entries[].number", "integer", "the op's number in the process, from 1 on."),
    Field("entries[].group", "text", "id of the group, 16 hexadecimal digits."),
    Field("entries[].sequence", "integer", "the op's number in its group, the same on all ranks."),
    Field("entries[].epoch", "integer", "number of the view in which it ran last, by `path`."),
    Field("entries[].collective", "text", "`all_reduce`, `send`, ..."),
    Field("entries[].dtype", "text", "`f32`, ..."),
    Field("entries[].op", "text", "`sum`, ..."),
    Field("entries[].bytes", "integer", "payload: the larger of what goes in and comes out."),
    Field(
        "entries[].path",
        "text",
        "the [way](algorithms.md#ways) of the op: `flat`, `slices`, "
        "`schedule`, `repair`, `message`, `direct`, `levels`, `coded`, or `none`: refused, or "
        "not begun.",
    ),
    Field(
        "entries[].algorithm",
        "text",
        "the row of the [algorithms](algorithms.md) where `path` is `schedule`; else empty.",
    ),
    Field(
        "entries[].caller",
        "text",
        "the call of the program that the op is, or is a part of: `MPI_Allreduce`; else empty.",
    ),
    Field("entries[].rank", "integer", "the process's rank in the group."),
    Field("entries[].other", "integer", "the root, or the peer of a message."),
    Field(
        "entries[].enqueued_ns",
        "integer",
        "when it was called; nanoseconds of the monotonic clock, as the next two.",
    ),
    Field("entries[].started_ns", "integer", "when it began; 0: not yet."),
    Field("entries[].ended_ns", "integer", "when it ended; 0: not yet."),
    Field("entries[].state", "text", "`started` or `ended`."),
    Field("entries[].code", "text", "`ok`, or the class of its error ([errors.md](errors.md))."),
    Field("entries[].repaired", "flag", "whether a loss cut it off, and it was repaired."),
    Field(
        "entries[].waited_for[]",
        "list",
        "ranks of the world that it waited for when it was "
        "last looked at, the first 8; of ops that ran for 1 ms or more.",
    ),
]

LAYOUT = "native/health/flight_layout.h"
RECORDER = "native/health/flight_recorder.h"
OFFSET = re.compile(
    r"(?:// (?P<above>[^\n]*)\n)?inline constexpr std::size_t k(?P<name>\w+) = (?P<word>\d+);"
    r"(?:[ ]+// (?P<beside>.*))?"
)

BYTES = """
Words of eight bytes, little endian: the header, of 512 words; 64 groups of eight words, an id (0:
unused) and 56 bytes of name; then the entries, of 16 words. The entry of op n is number (n - 1) mod
the count of entries. An entry whose two stamps differ, or are odd, is torn; both 0: it was never
used. Numbers of collectives, dtypes, ops, paths and codes are those of `collective.h`, `dtype.h`,
`observer.h` and `result.h`; state is 1, started, or 2, ended.
"""


def offsets(part: str) -> str:
    """The words of the header, or of an entry, as the writer and the reader have them."""
    text = ""
    for match in OFFSET.finditer(part):
        name, comment = match["name"], match["beside"] or match["above"]
        if name.endswith("Bytes") and name != "Bytes":  # a length
            continue
        plain = re.sub(r"(?<!^)([A-Z])", r" \1", name.removesuffix("At")).lower()
        text += item(f"word {match['word']}, {plain}" + (f": {comment}" if comment else ""))
    return text


def version() -> int:
    """The number of the file's format."""
    found = re.search(r"kFlightVersion = (\d+);", (root() / RECORDER).read_text())
    assert found is not None
    return int(found[1])


def page(_: str) -> str:
    text = head("Flight record", f"`tests/reference/flight_record.py` and `{LAYOUT}`")
    text += TOP + sections(FIELDS, TITLES)
    _, _, rest = (root() / LAYOUT).read_text().partition("// Word offsets in the header.")
    header, _, entry = rest.partition("// Word offsets in an entry.")
    text += section(f"The file, version {version()}") + BYTES.lstrip()
    text += section("Words of the header", 3) + offsets(header)
    return text + section("Words of an entry", 3) + offsets(entry)
