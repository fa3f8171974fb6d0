"""A keeper's flush, by itself: what is left on the disk when it fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from coded_files import body_of, head_of
from waiting import eventually

from holdfast.errors import SystemFailure
from holdfast.ft.state.files.container import hashes
from holdfast.ft.state.files.saved import states
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.keeper.flushing import Flushing
from holdfast.ft.state.keeper.slots import Part, Slot


def slot_of(rank: int, step: int, world: int) -> Slot:
    body = body_of(rank, step)
    slot = Slot("test", len(body), 0)
    slot.begin(Part(step, len(body), "layout", head_of(rank, step, world).to_bytes()))
    slot.body[:] = body.data
    slot.hashes, slot.id = np.array(hashes(body.data), np.uint64), (1, step)
    return slot


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path: Path):
    def parts() -> Iterator[bytes]:
        yield bytes(1 << 20)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(SystemFailure, match="No space left on device; free space there"):
        place(str(tmp_path)).write("step-000001-epoch-1", "rank-00000.safetensors", parts())
    assert [*(tmp_path / "step-000001-epoch-1").iterdir()] == []


def test_what_not_all_could_write_is_removed_and_the_state_before_stays(tmp_path: Path):
    url = f"file://{tmp_path}"
    keepers = [Flushing(url), Flushing(url)]

    def flushed(step: int, error: str = "") -> list[str]:
        written = [one._written(slot_of(r, step, 2)) for r, one in enumerate(keepers)]
        written[1]["error"] = error
        verified = [one._committed(written) for one in keepers]
        return [one._settled(verified) for one in keepers]

    assert flushed(1) == ["", ""]
    assert flushed(2, "no room") == ["no room", "no room"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000001-epoch-1"]
    (saved,) = states(place(url))
    assert saved.body(1) == body_of(1, 1).tobytes()
    assert flushed(3) == ["", ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000003-epoch-1"]


def test_what_is_not_on_the_disk_as_it_was_captured_is_no_newer_state(tmp_path: Path):
    keeper = Flushing(f"file://{tmp_path}")
    for step, is_damaged in ((1, False), (2, True)):
        slot = slot_of(0, step, 1)
        if is_damaged:
            slot.body[9] ^= 1
        said = keeper._settled([keeper._committed([keeper._written(slot)])])
        assert ("are not as they were captured" in said) == is_damaged
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000001-epoch-1", "step-000002-epoch-1"]


def test_what_is_given_up_is_what_was_begun_not_what_was_written_at_the_end_of_a_life(
    tmp_path: Path,
):
    """Else the state machine waits for its end for ever, and nothing is flushed any more."""
    keeper = Flushing(f"file://{tmp_path}")
    begun, newest = slot_of(0, 1, 1), slot_of(0, 2, 1)
    keeper.begin(begun)
    assert eventually(keeper.said)
    keeper._written(newest)
    assert keeper.abandon() == begun.id
