"""The keepers' code among ranks: parity by what has changed, and tiles made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run_ranks


@pytest.mark.parametrize("code", ["2+1", "2+2"])
def test_parity_is_that_of_the_plain_code_and_damaged_tiles_are_made_again(
    tmp_path: Path, code: str
) -> None:
    members = sum(map(int, code.split("+")))
    run_ranks("coding_ranks", "codes", members, tmp_path, env={"CODE": code})
