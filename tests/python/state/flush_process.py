"""A process that flushes again and again, until it is killed; it says what it has committed."""

from __future__ import annotations

import sys

import numpy as np

from holdfast.ft.state.files import flush
from holdfast.ft.state.files.manifest import Manifest
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest

BYTES = 3 << 20


def body_of(rank: int, step: int) -> np.ndarray:
    return np.random.default_rng([rank, step]).integers(0, 256, BYTES, dtype=np.uint8)


def main(folder: str, first: int) -> None:
    root = place(f"file://{folder}")
    for step in range(first, first + 1000):
        heads, files = [], []
        for rank in range(2):
            entry = Entry("w", "uint8", (2 * BYTES,), (rank * BYTES,), (BYTES,), 0, BYTES, 0)
            heads.append(Head("job", step, 1, rank, 2, (entry,), (BYTES, 0), BYTES))
            files.append(flush.write_body(root, heads[-1], body_of(rank, step).data))
        flush.commit(root, Manifest("job", step, 1, 2, layout_digest(heads), tuple(files)))
        print(step, flush=True)
        flush.prune(root)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
