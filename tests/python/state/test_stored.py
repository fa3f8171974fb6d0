"""Coded states in files: what is lost with disks or damaged is made again, or refused and named."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coded_files import Thread, body_of, disks, together, written

from holdfast import cli
from holdfast.errors import ProtocolError
from holdfast.ft.state.files import code, container, flush, manifest
from holdfast.ft.state.files.manifest import Manifest
from holdfast.ft.state.files.schemes import place
from holdfast.ft.state.layout.plan import Reading
from holdfast.ft.state.places import TILE
from holdfast.ft.state.stored import newest_stored, why_lost

CODES = [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)]


def read_all(urls: list[str], size: int) -> list[Any]:
    """As ranks with a disk each: refusals, or the whole bodies of this rank and the next one."""

    def act(who: Thread) -> Any:
        stored, refused = newest_stored(urls[who.rank], "job", who)
        if stored is None:
            return refused
        saved = stored.lend_heads()
        world = len(saved.heads())
        ranks = sorted({who.rank % world, (who.rank + 1) % world})
        spans = [(rank, len(body_of(rank, stored.step))) for rank in ranks]
        readings = [Reading(r, np.array([3]), np.array([n - 3]), ()) for r, n in spans]
        stored.lend(readings)
        return {one.rank: saved.gather(one) for one in readings}

    return together(size, act)


def assert_right(found: list[Any], step: int = 5) -> None:
    for one in found:
        assert isinstance(one, dict), one
        for rank, data in one.items():
            assert data == body_of(rank, step).tobytes()[3:]


@pytest.mark.parametrize(("k", "m"), CODES)
def test_a_state_is_put_together_of_the_disks_of_any_k_hosts(tmp_path: Path, k: int, m: int):
    roots = disks(tmp_path, k + m)
    whole = written(roots, k, m)
    urls = [root.url for root in roots]
    chance = random.Random(k * 10 + m)
    losses = [*itertools.combinations(range(k + m), m)]
    for lost in chance.sample(losses, min(2, len(losses))):
        kept = tmp_path / "kept"
        for rank in lost:
            (tmp_path / f"disk{rank}").rename(kept.with_name(f"kept{rank}"))
        # The lost ranks are there again, with empty disks.
        assert_right(read_all(urls, k + m))
        # On one host, or in another number of ranks, what is left is enough as well.
        one = tmp_path / f"all{lost}"
        for rank in {*range(k + m)} - {*lost}:
            shutil.copytree(tmp_path / f"disk{rank}", one, dirs_exist_ok=True)
        assert_right(read_all([f"file://{one}"] * 2, 2))
        saved = flush.newest(place(str(one)))
        assert saved is not None
        assert all(saved.body(r) == body_of(r, 5).tobytes() for r in range(k + m))
        assert len(saved.problems()) == 2 * m
        more = next(rank for rank in range(k + m) if rank not in lost)
        (tmp_path / f"disk{more}").rename(kept.with_name(f"kept{more}"))
        refusals = read_all(urls, k + m)
        # Of one data shard all copies are gone then, and the manifest with them.
        said = f"{whole.folder} lacks rank-" if k > 1 else ""
        assert all(said in (one or [""])[0] for one in refusals), refusals
        for rank in (*lost, more):
            kept.with_name(f"kept{rank}").rename(tmp_path / f"disk{rank}")


def test_single_tiles_are_made_again_also_where_all_disks_have_some_that_are_damaged(tmp_path):
    k, m = 3, 1
    roots = disks(tmp_path, k + m)
    whole = written(roots, k, m)
    urls = [root.url for root in roots]
    # Offset 0 and 1 of a slice of two tiles: of each codeword at most one shard is lost.
    flip(tmp_path / "disk0" / whole.folder / manifest.body_name(0), tile=0)
    flip(tmp_path / "disk2" / whole.folder / manifest.body_name(2), tile=1)
    cut(tmp_path / "disk3" / whole.folder / manifest.body_name(3))
    assert_right(read_all(urls, k + m))
    assert_right(read_all(urls[:2] + urls[2:], k + m))
    # A table that is flipped, and a file that was swapped for another one.
    path = tmp_path / "disk1" / whole.folder / manifest.body_name(1)
    flip(path, at=300)
    shutil.copy(tmp_path / "disk1" / whole.folder / manifest.parity_name(1), path)
    found = read_all(urls, k + m)
    assert all(isinstance(one, list) and "rank-0000" in one[0] for one in found), found


def flip(path: Path, tile: int = 0, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    begins = container.table_length(data[:8], "here")
    data[begins + tile * TILE + 77 if at is None else at] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: container.table_length(data[:8], "here") + 5])


def test_a_flipped_bit_anywhere_is_repaired_and_never_loaded(tmp_path):
    roots = [place(f"file://{tmp_path}/run")] * 3
    whole = written(roots, 2, 1)
    chance = random.Random(9)
    paths = sorted((tmp_path / "run" / whole.folder).iterdir())
    for _ in range(25):
        path = chance.choice(paths)
        kept = path.read_bytes()
        damaged = bytearray(kept)
        damaged[chance.randrange(len(kept))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        saved = flush.newest(roots[0])
        if path.name == manifest.NAME:
            assert saved is None
        else:
            assert saved is not None
            assert len(saved.problems()) == 1
            assert all(saved.body(rank) == body_of(rank, 5).tobytes() for rank in range(3))
        path.write_bytes(kept)


def test_the_command_says_what_is_wrong_and_whether_the_rest_is_enough(tmp_path, capsys):
    whole = written([place(str(tmp_path))] * 3, 2, 1)
    (tmp_path / whole.folder / manifest.body_name(1)).unlink()
    assert cli.main(["state", "verify", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "rank-00001.safetensors: is not there" in told
    assert "all of it can be made again of the rest" in told
    (tmp_path / whole.folder / manifest.body_name(0)).unlink()
    assert cli.main(["state", "verify", str(tmp_path)]) == 1
    assert "too much is damaged or missing" in capsys.readouterr().out


def test_the_state_before_is_taken_where_the_newest_cannot_be_had(tmp_path):
    roots = disks(tmp_path, 3)
    written(roots, 2, 1, 5)
    newest = written(roots, 2, 1, 6)
    for rank in (0, 1):
        shutil.rmtree(tmp_path / f"disk{rank}" / newest.folder)
    assert_right(read_all([root.url for root in roots], 3))


def test_what_is_said_of_a_state_that_is_lost_or_older_names_the_reasons(tmp_path):
    roots = disks(tmp_path, 3)
    written(roots, 2, 1, 5)

    def said(who: Thread) -> str:
        stored, _ = newest_stored(roots[who.rank].url, "job", who)
        assert stored is not None
        return stored.why_taken(9, ["too few are whole"])

    for one in together(3, said):
        assert one.startswith("the state is that of step 5, file://"), one
        assert one.endswith(": 4 steps are lost; too few are whole")
    both = why_lost("run7", "", ["step-000005-epoch-1 lacks rank-00001.safetensors"])
    assert "keepers have nothing; of what was flushed step-000005-epoch-1 lacks rank-00001" in both
    assert "flush to another folder" in both
    neither = why_lost("run7", "1 of 4 parts are whole, and 3 are needed", [])
    assert neither.startswith("the state of job 'run7' is lost: 1 of 4 parts are whole")
    assert "nothing was flushed" in neither


def test_groups_and_guards_that_are_none_are_refused(tmp_path):
    whole = written([place(str(tmp_path))] * 3, 2, 1)
    (good,) = whole.code[code.GROUPS]  # type: ignore[misc]
    assert code.groups_of(whole)[2].told() == good
    for bad in (
        7,
        [[0, 1, 2], 1],
        [[0, 1, 1], 1, 5],
        [[0, 1, 3], 1, 5],
        [[0, 1], 2, 5],
        [[0, 1], 0, 5],
        [[0, 1], 1, -5],
        [["0", 1], 1, 5],
    ):
        fields = (whole.job, whole.step, whole.epoch, whole.world, whole.layout, whole.files)
        with pytest.raises(ProtocolError, match=r"group|rank|parity|bytes"):
            code.groups_of(Manifest(*fields, {code.GROUPS: [bad]}))
    with pytest.raises(ProtocolError, match="two groups"):
        code.groups_of(Manifest(*fields, {code.GROUPS: [good, good]}))
    for bad in (None, [], ["x", ""], ["", "zz"], [3, 4], ["eJw=", "0" * 16]):
        with pytest.raises(ProtocolError, match="guards nothing"):
            code.guarded(bad, "here")
