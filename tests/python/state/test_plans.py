"""Boxes, ranges and plans, against NumPy: any layout to any other, every element once."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.layout.boxes import Box, of_range
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, place
from holdfast.ft.state.layout.plan import Wanted, index, plan

ITEM = {"uint8": 1, "float32": 4, "complex128": 16}


def cuts(chance: random.Random, length: int, most: int) -> list[tuple[int, int]]:
    """Intervals that are all of a dimension; some may be empty."""
    marks = sorted(chance.randint(0, length) for _ in range(chance.randint(0, most - 1)))
    marks = [0, *marks, length]
    return [(a, b - a) for a, b in itertools.pairwise(marks)]


def boxes_of(chance: random.Random, shape: tuple[int, ...]) -> list[Box]:
    axes = [cuts(chance, length, 3) for length in shape]
    found = [
        Box(tuple(p[0] for p in parts), tuple(p[1] for p in parts))
        for parts in itertools.product(*axes)
    ]
    return [box for box in found if box.count] or [Box((0,) * len(shape), shape)]


def part(array: np.ndarray, box: Box) -> np.ndarray:
    spans = zip(box.offset, box.size, strict=True)
    return array[(*(slice(o, o + n) for o, n in spans), ...)]


def test_a_range_of_a_block_is_boxes_that_are_contiguous_in_it():
    chance = random.Random(1)
    for _ in range(500):
        size = tuple(chance.randint(1, 5) for _ in range(chance.randint(0, 4)))
        block = np.arange(int(np.prod(size))).reshape(size)
        first = chance.randint(0, block.size - 1)
        count = chance.randint(0, block.size - first)
        found = of_range(size, first, count)
        assert len(found) <= max(1, 2 * len(size))
        flat = [part(block, box).reshape(-1) for box, _ in found]
        assert [f[0] - first for f in flat] == [before for _, before in found]
        whole = np.concatenate([*flat, np.zeros(0, int)])
        assert whole.tolist() == list(range(first, first + count))


def saved(chance: random.Random, arrays: dict[str, np.ndarray], world: int):
    """Heads and bodies of a world in which every tensor is cut at random, replicas included."""
    rows: list[list[tuple]] = [[] for _ in range(world)]
    for name, array in arrays.items():
        for box in boxes_of(chance, array.shape):
            values = part(array, box).reshape(-1)
            for first, count in cuts(chance, values.size, 3):
                # Some parts are there twice, as with replicas that do not know of each other.
                for rank in {chance.randrange(world), chance.randrange(world)}:
                    rows[rank].append((name, array, box, first, values[first : first + count]))
    images = []
    for rank, mine in enumerate(rows):
        places, end = place([*(values.nbytes for *_, values in mine), 0])
        body = bytearray(end)
        entries = []
        for (name, array, box, first, values), at in zip(mine, places[:-1], strict=True):
            body[at : at + values.nbytes] = values.tobytes()
            kind = (name, str(array.dtype), array.shape)
            entries.append(Entry(*kind, box.offset, box.size, first, values.size, at))
        images.append((Head("job", 1, 1, rank, world, tuple(entries), (places[-1], 0), end), body))
    return images


def fetched(images, wanted: list[Wanted], prefer: int) -> list[list[np.ndarray]]:
    """What a rank has after a plan was carried out."""
    found = [[np.zeros(box.size, dtype=want.dtype) for box in want.boxes] for want in wanted]
    for reading in plan(index(head for head, _ in images), wanted, prefer):
        data = np.frombuffer(reading.gather(images[reading.rank][1]), np.uint8)
        for piece in reading.pieces:
            want = wanted[piece.wanted]
            raw = data[piece.at : piece.at + piece.nbytes].copy().view(want.dtype)
            steps = tuple(s * ITEM[want.dtype] for s in piece.strides)
            values = np.lib.stride_tricks.as_strided(raw, piece.region.size, steps)
            inside = piece.region.inside(want.boxes[piece.box])
            part(found[piece.wanted][piece.box], inside)[...] = values
    return found


def test_any_layout_is_restored_into_any_other_element_by_element():
    chance = random.Random(2)
    bits = np.random.default_rng(2)
    for _ in range(200):
        arrays = {}
        for k in range(chance.randint(1, 4)):
            shape = tuple(chance.choice((0, 1, 2, 5, 13, 40)) for _ in range(chance.randint(0, 3)))
            dtype = chance.choice(list(ITEM))
            raw = bits.integers(0, 120, int(np.prod(shape)) * ITEM[dtype], dtype=np.uint8)
            arrays[f"t{k}"] = raw.view(dtype).reshape(shape)
        images = saved(chance, arrays, chance.randint(1, 5))
        wanted = [
            Wanted(name, str(a.dtype), a.shape, tuple(boxes_of(chance, a.shape)))
            for name, a in arrays.items()
        ]
        found = fetched(images, wanted, chance.randrange(len(images)))
        for want, boxes in zip(wanted, found, strict=True):
            for box, values in zip(want.boxes, boxes, strict=True):
                assert part(arrays[want.name], box).tobytes() == values.tobytes()


def image(shape: tuple[int, ...], box: Box, rank: int = 0, world: int = 1, step: int = 1) -> Head:
    entry = Entry("w", "float32", shape, box.offset, box.size, 0, box.count, 0)
    end = -(-entry.nbytes // 64) * 64
    return Head("job", step, 1, rank, world, (entry,), (end, 0), end)


def test_rows_that_touch_are_one_range_and_long_rows_with_gaps_are_not_read_with_them():
    whole = image((1000, 4096), Box((0, 0), (1000, 4096)))
    rows = Wanted("w", "float32", (1000, 4096), (Box((10, 0), (500, 4096)),))
    (reading,) = plan(index([whole]), [rows])
    assert reading.starts.tolist() == [10 * 4096 * 4]
    columns = Wanted("w", "float32", (1000, 4096), (Box((0, 1024), (1000, 1024)),))
    (reading,) = plan(index([whole]), [columns])
    assert len(reading.starts) == 1000
    assert reading.nbytes == 1000 * 1024 * 4
    thin = image((1_000_000, 4), Box((0, 0), (1_000_000, 4)))
    (reading,) = plan(
        index([thin]), [Wanted("w", "float32", (1_000_000, 4), (Box((0, 1), (1_000_000, 1)),))]
    )
    assert len(reading.starts) == 1


def test_the_own_image_is_read_first():
    images = [image((8,), Box((0,), (8,)), rank, 3) for rank in range(3)]
    want = Wanted("w", "float32", (8,), (Box((0,), (8,)),))
    for rank in range(3):
        assert [reading.rank for reading in plan(index(images), [want], rank)] == [rank]


def test_holes_other_models_and_mixed_snapshots_are_refused():
    half = [image((8,), Box((0,), (4,)))]
    want = Wanted("w", "float32", (8,), (Box((2,), (4,)),))
    with pytest.raises(ProtocolError, match=r"'w': no image has the elements at \[4\], \[2\]"):
        plan(index(half), [want])
    with pytest.raises(ConfigError, match=r"another model's state: tensor 'w' is float32, \[8\]"):
        plan(index(half), [Wanted("w", "float32", (9,), ())])
    with pytest.raises(ConfigError, match="another model's state: it has no tensor 'v'"):
        plan(index(half), [Wanted("v", "float32", (8,), ())])
    with pytest.raises(ProtocolError, match="of two snapshots"):
        index([image((8,), Box((0,), (4,)), 0, 2), image((8,), Box((4,), (4,)), 1, 2, step=2)])
    with pytest.raises(ProtocolError, match=r"heads of ranks \[1\] of 2 are missing"):
        index([image((8,), Box((0,), (4,)), 0, 2)])
    with pytest.raises(ProtocolError, match="'w' differs between images"):
        index([image((8,), Box((0,), (4,)), 0, 2), image((9,), Box((4,), (4,)), 1, 2)])
