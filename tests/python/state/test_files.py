"""States in files: what is written is read back, and what is damaged is named and never loaded."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import ConfigError, ProtocolError, SystemFailure
from holdfast.ft.state.files import container, direct, flush, manifest
from holdfast.ft.state.files.container import TILE
from holdfast.ft.state.files.manifest import Manifest
from holdfast.ft.state.files.saved import Saved, states
from holdfast.ft.state.files.schemes import Local, Place, absolute, place
from holdfast.ft.state.layout.boxes import Box
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.layout.head import place as laid
from holdfast.ft.state.layout.plan import Wanted, index, plan

WORLD = 3
# STATE_FLIPS=1000 by hand takes a minute.
FLIPS = int(os.environ.get("STATE_FLIPS", "60"))
ROWS = 230_000


def image(rank: int, step: int = 5, job: str = "run7", epoch: int = 1) -> tuple[Head, bytearray]:
    """A body of about three tiles: one tensor of all ranks, one of its own, and a rest."""
    sizes = [ROWS * 3 * 4, 8, 77]
    places, end = laid(sizes)
    box = ((rank * ROWS, 0), (ROWS, 3))
    entries = (
        Entry("model/w", "float32", (ROWS * WORLD, 3), *box, 0, ROWS * 3, places[0]),
        Entry(f"rank/{rank}/n", "complex64", (), (), (), 0, 1, places[1]),
    )
    body = bytearray(end)
    chance = np.random.default_rng([rank, step, len(job)])
    for at, size in zip(places, sizes, strict=True):
        body[at : at + size] = chance.integers(0, 256, size, dtype=np.uint8).tobytes()
    return Head(job, step, epoch, rank, WORLD, entries, (places[2], sizes[2]), end), body


def written(root: Place, step: int = 5, job: str = "run7", epoch: int = 1) -> Manifest:
    images = [image(rank, step, job, epoch) for rank in range(WORLD)]
    files = [flush.write_body(root, head, memoryview(body)) for head, body in images]
    parity = np.arange(TILE + 99, dtype=np.uint32).astype(np.uint8)
    files.append(flush.write_parity(root, images[1][0], {"member": 2, "row": 0}, parity.data))
    heads = [head for head, _ in images]
    files.sort(key=lambda file: file.name)
    code = {"k": 2, "m": 1}
    whole = Manifest(job, step, epoch, WORLD, layout_digest(heads), tuple(files), code)
    flush.commit(root, whole)
    return whole


@pytest.fixture(params=["file", "memory"])
def root(request, tmp_path) -> Place:
    if request.param == "file":
        return place(f"file://{tmp_path}/run")
    pytest.importorskip("fsspec", reason="storage that is no folder is fsspec's")
    return place(f"memory://{tmp_path.name}/run")


def test_what_is_flushed_is_read_back_bit_by_bit(root):
    whole = written(root)
    saved = flush.newest(root, "run7")
    assert saved is not None
    assert saved.manifest == whole
    assert saved.manifest.code == {"k": 2, "m": 1}
    assert saved.problems() == []
    for rank in range(WORLD):
        head, body = image(rank)
        assert saved.head(rank) == head
        assert saved.body(rank) == body
        assert saved.rest(rank) == body[head.objects[0] : sum(head.objects)]
    (parity,) = [file for file in whole.files if file.is_parity]
    assert saved.table(parity).parity["row"] == 0
    assert len(saved.tiles(parity)) == TILE + 99
    assert flush.newest(root, "another") is None


def test_ranges_of_a_plan_are_read_by_their_tiles(root):
    written(root)
    (saved,) = states(root)
    shape = (ROWS * WORLD, 3)
    boxes = (Box((ROWS - 100, 0), (200, 3)), Box((0, 1), (ROWS * WORLD, 2)))
    wanted = [Wanted("model/w", "float32", shape, boxes)]
    readings = plan(index(saved.heads()), wanted)
    assert [reading.rank for reading in readings] == [0, 1, 2]
    for reading in readings:
        assert saved.gather(reading) == reading.gather(bytes(image(reading.rank)[1]))


def test_states_are_the_newest_first_and_one_without_a_manifest_is_none(root):
    for step in (5, 40, 300):
        written(root, step)
    root.write("step-000500-epoch-1", "rank-00000.safetensors", [b"half"])
    root.write("something", "else", [b"x"])
    assert [saved.manifest.step for saved in states(root)] == [300, 40, 5]


def test_older_states_go_only_when_newer_ones_verify(tmp_path):
    root = place(str(tmp_path / "run"))
    for step in (5, 6, 7):
        written(root, step)
    flip(tmp_path / "run/step-000007-epoch-1/rank-00001.safetensors", -200)
    # What is newer than the newest that verifies may be under way, and stays.
    assert flush.prune(root) == ["step-000005-epoch-1"]
    assert flush.newest(root).manifest.step == 6
    written(root, 8)
    assert flush.prune(root, keep=2) == []
    assert flush.prune(root) == ["step-000007-epoch-1", "step-000006-epoch-1"]
    assert root.folders() == ["step-000008-epoch-1"]
    with pytest.raises(ConfigError, match="keep 0; accepted: at least 1"):
        flush.prune(root, keep=0)


# ---- damage --------------------------------------------------------------------------------------


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_a_flipped_bit_anywhere_is_refused_by_file_and_tile(tmp_path):
    root = place(str(tmp_path))
    whole = written(root)
    folder = tmp_path / whole.folder
    chance = random.Random(4)
    paths = sorted(folder.iterdir())
    kept = {path: path.read_bytes() for path in paths}
    for _ in range(FLIPS):
        path = chance.choice(paths)
        at = chance.randrange(len(kept[path]))
        flip(path, at, chance.randrange(8))
        assert flush.newest(root) is None, (path, at)
        if path.name != manifest.NAME:
            (problem,) = Saved.open(root, whole.folder).problems()
            assert path.name in problem
            begins = container.table_length(kept[path][:8], "here")
            tile = (at - begins) // TILE
            assert at < begins or f"tile {tile} of" in problem
        path.write_bytes(kept[path])
    assert flush.newest(root) is not None


def test_a_file_that_is_cut_longer_missing_swapped_or_another_jobs_is_refused(tmp_path):
    root = place(str(tmp_path))
    whole = written(root)
    other = written(place(str(tmp_path / "other")), job="theirs")
    folder = tmp_path / whole.folder
    first, second = folder / "rank-00000.safetensors", folder / "rank-00001.safetensors"
    kept = first.read_bytes()

    def problems() -> str:
        return "\n".join(Saved.open(root, whole.folder).problems())

    first.write_bytes(kept[:-TILE])
    assert "rank-00000.safetensors: tile 2 of 3 is" in problems()
    first.write_bytes(kept[:3])
    assert "rank-00000.safetensors: no safetensors file" in problems()
    first.write_bytes(b"")
    assert "rank-00000.safetensors: no safetensors file" in problems()
    first.write_bytes(kept + b"x")
    assert "rank-00000.safetensors: has bytes after its end" in problems()
    first.unlink()
    assert "rank-00000.safetensors: is not there" in problems()
    assert [*Saved.open(root, whole.folder).damage()] == ["rank-00000.safetensors"]
    shutil.copy(second, first)
    assert "rank-00000.safetensors: is not the file that was written" in problems()
    shutil.copy(tmp_path / "other" / other.folder / first.name, first)
    assert "rank-00000.safetensors: is not the file that was written" in problems()
    first.write_bytes(kept)
    assert problems() == ""
    (tmp_path / whole.folder).rename(tmp_path / "step-000009-epoch-1")
    with pytest.raises(ProtocolError, match="somebody has moved it"):
        Saved.open(root, "step-000009-epoch-1")


def test_a_manifest_that_vouches_for_another_jobs_file_is_refused(tmp_path):
    root = place(str(tmp_path))
    whole = written(root)
    theirs = written(place(str(tmp_path / "other")), job="theirs")
    name = "rank-00001.safetensors"
    shutil.copy(tmp_path / "other" / theirs.folder / name, tmp_path / whole.folder / name)
    files = tuple(theirs.files[k] if f.name == name else f for k, f in enumerate(whole.files))
    flush.commit(root, Manifest("run7", 5, 1, WORLD, whole.layout, files))
    (problem,) = Saved.open(root, whole.folder).problems()
    assert "is of (job, step, epoch, rank) ('theirs', 5, 1, 1)" in problem


def test_damaged_manifests_and_tables_are_refused(tmp_path):
    root = place(str(tmp_path))
    whole = written(root)
    data = whole.to_bytes()
    table = (tmp_path / whole.folder / "rank-00001.safetensors").read_bytes()
    table = table[: container.table_length(table[:8], "here")]
    chance = random.Random(7)
    for text, parse in ((data, Manifest.from_bytes), (table, container.parse)):
        for _ in range(2000):
            damaged = bytearray(text)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(8, len(damaged.rstrip()))
                if chance.random() < 0.5:
                    damaged[at] ^= 1 << chance.randrange(8)
                else:
                    del damaged[at : at + chance.randint(1, 30)]
            try:
                parse(bytes(damaged), "here")
            except ProtocolError as error:
                assert "here" in str(error) or "entry" in str(error) or "head" in str(error)
    with pytest.raises(ProtocolError, match="has not the digest that it says"):
        Manifest.from_bytes(data.replace(b'"step": 5', b'"step": 6'))


# ---- where files may be --------------------------------------------------------------------------


def test_schemes_that_are_unknown_or_whose_package_is_missing_are_refused(monkeypatch):
    pytest.importorskip("fsspec", reason="storage that is no folder is fsspec's")
    with pytest.raises(ConfigError, match=r"nope:// is unknown; accepted: file:// and .*memory"):
        place("nope://here")
    with pytest.raises(ConfigError, match="accepted: file:///folder"):
        place("file://host/folder")
    with pytest.raises(ConfigError, match="an empty URL"):
        place("")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigError, match=r"needs fsspec, which is not installed.*pip install"):
        place("memory://here")


def test_a_disk_that_refuses_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SystemFailure, match="flush elsewhere"):
        written(Local("x", tmp_path / "file"))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, (8 << 20) - 1, (8 << 20) + 4097])
@pytest.mark.parametrize("is_direct", [True, False])
def test_files_of_every_length_are_written_whole_with_and_without_o_direct(
    size, is_direct, tmp_path, monkeypatch
):
    if not is_direct:
        monkeypatch.setattr(direct.os, "O_DIRECT", 0)
        monkeypatch.setattr(direct, "_DIRTY", 1 << 20)
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    parts = [b"abc", data.data, b"", data.data[: size // 2]]
    whole = b"".join(bytes(part) for part in parts)
    assert direct.write(tmp_path / "file", parts) == len(whole)
    assert (tmp_path / "file").read_bytes() == whole
    aligned = np.zeros(size + 4096, dtype=np.uint8)
    start = -aligned.ctypes.data % 4096
    aligned[start : start + size] = data
    direct.write(tmp_path / "file", [aligned.data[start : start + size]])
    assert (tmp_path / "file").read_bytes() == data.tobytes()


# ---- read by others ------------------------------------------------------------------------------


def test_the_safetensors_package_reads_every_dtype(tmp_path):
    torch = pytest.importorskip("torch", reason="safetensors reads every dtype into torch's")
    safe = pytest.importorskip("safetensors", reason="the package that reads these files")
    from holdfast.ft.state.layout.capture import Capture

    state: dict[str, object] = {}
    for dtype, item in ITEM_BYTES.items():
        raw = torch.randint(0, 2, (6 * item,), dtype=torch.uint8)
        state[dtype] = raw.view(getattr(torch, dtype)).reshape(2, 3)
    state |= {"none": torch.zeros(0, 4), "one": torch.tensor(3.5), "names": ["a", None]}
    capture = Capture(state, 0, 1)
    body = bytearray(capture.body_bytes)
    capture.copy(memoryview(body))
    head = capture.head("job", 5, 1)
    root = place(str(tmp_path))
    flush.write_body(root, head, memoryview(body))
    path = tmp_path / manifest.folder_name(5, 1) / manifest.body_name(0)
    with safe.safe_open(path, framework="pt") as file:
        assert Head.from_bytes(file.metadata()["holdfast.head"].encode()) == head
        for name, tensor in state.items():
            if name == "names":
                continue
            found = file.get_tensor(name)
            raw = tensor.contiguous().reshape(-1).view(torch.uint8)
            assert torch.equal(found.contiguous().reshape(-1).view(torch.uint8), raw), name
            if "complex" not in name:
                assert found.shape == tensor.shape
            if container.SAFETENSORS[str(tensor.dtype)[6:]][0] != "U8":
                assert "complex" in name or found.dtype == tensor.dtype
    for rank in range(WORLD):
        of, bytes_ = image(rank)
        flush.write_body(root, of, memoryview(bytes_))
        path = tmp_path / manifest.folder_name(5, 1) / manifest.body_name(rank)
        with safe.safe_open(path, framework="np") as file:
            name = f"model/w@{rank * ROWS},0"
            assert file.get_tensor(name).tobytes() == bytes_[: ROWS * 12]


def test_a_file_that_does_not_fit_is_said_and_not_left(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(SystemFailure, match=r"a/b: File too large; free space there"):
            place(str(tmp_path)).write("a", "b", [bytes(9 << 20)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*(tmp_path / "a").iterdir()]


def test_a_path_is_the_same_place_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("run7") == f"{tmp_path}/run7"
    assert absolute("") == ""
    assert absolute("file:///run7") == "file:///run7"
    assert absolute("memory://run7") == "memory://run7"
    with pytest.raises(ConfigError, match=r"s4:// is unknown; accepted: file:// and"):
        absolute("s4://run7")
