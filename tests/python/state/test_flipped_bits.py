"""Bits that flip in keepers' memory: repaired or refused, and never loaded."""

from __future__ import annotations

import random

from keeper_flush import flipped

FLIPS = 24


def test_bits_that_flip_in_keepers_memory_are_repaired_or_refused(tmp_path):
    found = flipped(tmp_path, f"{tmp_path}", FLIPS, random.Random(3))
    assert found["wrong"] == 0
    assert found["one was refused"] == 0
    assert found["restored"] >= FLIPS * 3 // 4
