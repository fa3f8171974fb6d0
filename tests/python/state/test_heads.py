"""Heads of images: they come back as they were, and any other bytes are refused by name."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from holdfast.errors import ProtocolError
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest, place


def made(step: int = 7, rest: int = 100, name: str = "model/naïve.weight") -> Head:
    sizes = [4 * 3 * 5, 2, 0, rest]
    places, end = place(sizes)
    entries = (
        Entry(name, "float32", (12, 5), (3, 0), (6, 5), 0, 15, places[0]),
        Entry("optim/step", "bfloat16", (), (), (), 0, 1, places[1]),
        Entry("empty", "complex64", (0, 4), (0, 0), (0, 4), 0, 0, places[2]),
    )
    return Head("run7", step, 2, 1, 4, entries, (places[3], rest), end)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(made().to_bytes()), **fields}).encode()


def with_entry(**fields: object) -> bytes:
    names = ("name", "dtype", "shape", "offset", "size", "first", "count", "at")
    value = json.loads(made().to_bytes())
    row = dict(zip(names, value["entries"][0], strict=True)) | fields
    value["entries"][0] = [row[name] for name in names]
    return json.dumps(value).encode()


def test_a_head_comes_back_as_it_was():
    assert Head.from_bytes(made().to_bytes()) == made()


def test_the_digest_is_that_of_the_layout_alone():
    digest = layout_digest([made()])
    assert digest == layout_digest([made(step=8)]) == layout_digest([made(rest=101)])
    assert digest != layout_digest([made(name="other")])
    assert digest != layout_digest([made(), made()])
    assert len(digest) == 32


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON"),
        (b"\xff{}", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"format":1}', "accepted:"),
        (b"[]", "has none"),
        (b"9" * 5000, "no JSON"),
        (changed(format=2), "format '2'; accepted: 1"),
        (changed(format=True), "format 'True'"),
        (changed(step=-1), "step: '-1' is no whole number"),
        (changed(step=1.5), "no whole number"),
        (changed(step=True), "step: 'True'"),
        (changed(body=1 << 70), "body: '1180591620717411303424'"),
        (changed(rank=4), "rank: '4' is no whole number of 0 to 3"),
        (changed(job="x" * 1000), "job is no text"),
        (changed(objects=[0, 100]), "lies in|at 0 lies"),
        (changed(objects=[7, 1]), "no multiple of 64"),
        (changed(objects=[64 * 100, 1]), "behind the body"),
        (changed(objects=3), "objects is no pair"),
        (changed(entries={}), "entries is no list"),
        (changed(entries=[[1]]), "entry 0 is no list of name"),
        (with_entry(name=""), "entry 0: name is no text"),
        (with_entry(name="\ud800"), "half a character"),
        (with_entry(dtype="float31"), "dtype 'float31' is unknown; accepted: bool"),
        (with_entry(dtype=[]), "is unknown"),
        (with_entry(offset=[7, 0]), r"box \(7, 0\) \+ \(6, 5\) is not in shape \(12, 5\)"),
        (with_entry(size=[6]), "different lengths"),
        (with_entry(shape=[1 << 40, 1 << 40]), "is more than"),
        (with_entry(shape=[1] * 65), "no list of at most 64"),
        (with_entry(first=20), r"elements 20 \+ 15 of a box of 30"),
        (with_entry(at=128), "lies in"),
        (with_entry(at=3), "no multiple of 64"),
        (with_entry(at=1 << 59), "behind the body"),
        (made().to_bytes().replace(b'"step":7', b'"step":7,"step":8'), "one name twice"),
        (made().to_bytes().replace(b'"step":7', b'"step":NaN'), "NaN is no whole number"),
    ],
)
def test_what_is_no_head_is_refused_with_what_is_wrong(data, words):
    with pytest.raises(ProtocolError, match=words):
        Head.from_bytes(data)


def test_twenty_thousand_damaged_heads_are_heads_or_refused():
    chance = random.Random(29)
    whole = made().to_bytes()
    words = [
        b"[",
        b"]",
        b"{",
        b"}",
        b"0",
        b"-1",
        b"1e9",
        b"null",
        b'"',
        b",",
        b"9" * 30,
        b"\\ud800",
    ]
    refused = 0
    for _ in range(20_000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                data[at : at + chance.randint(0, 9)] = chance.choice(words)
            elif kind == 2:
                del data[at : at + chance.randint(1, 20)]
            else:
                start = chance.randrange(len(data))
                data[at:at] = data[start : start + chance.randint(1, 40)]
            data = data or bytearray(b"x")
        try:
            head = Head.from_bytes(data)
        except ProtocolError:
            refused += 1
            continue
        for entry in head.entries:
            assert 0 <= entry.at <= entry.at + entry.nbytes <= head.body
            assert all(o + n <= s for o, n, s in zip(*entry_boxes(entry), strict=True))
    assert refused > 10_000


def entry_boxes(entry: Entry) -> tuple[tuple[int, ...], ...]:
    return entry.offset, entry.size, entry.shape


def test_a_process_that_reads_heads_and_plans_imports_no_torch():
    program = (
        "import sys; import holdfast.ft.state.layout.head, holdfast.ft.state.layout.plan; "
        "import holdfast.ft.state.files.flush, holdfast.ft.state.files.rests; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
