"""What gloo gets wrong or refuses is right here; and gloo really fails it, in this torch."""

from __future__ import annotations

import pytest
from ranks import finish, run_ranks, start_rank

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

CASES = (
    *("non_contiguous_all_reduce", "non_contiguous_broadcast", "uneven_all_to_all"),
    *("uneven_all_gather", "int16", "fp8_e4m3", "fp8_e5m2", "premultiplied_sum"),
)


@pytest.mark.parametrize("case", CASES)
def test_right_here_and_a_failure_there(case, tmp_path):
    for part in ("gloo", "holdfast"):
        (tmp_path / part).mkdir()
    run_ranks("gloo_gap_ranks", f"holdfast_{case}", 3, tmp_path / "holdfast", timeout_s=60)
    theirs = [
        start_rank("gloo_gap_ranks", f"gloo_{case}", r, 3, tmp_path / "gloo", {}) for r in range(3)
    ]
    said = [outcome.output for outcome in finish(theirs, 60)]
    assert not all("OUTCOME right" in text for text in said), "gloo does it now, too"
