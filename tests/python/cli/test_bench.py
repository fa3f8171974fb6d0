"""`holdfast bench`: real runs beside gloo and MPI, its arithmetic, and its refusals."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: gloo is in it")

from holdfast.comm.bench import neighbours, overlap, plan, report, roofline, routing  # noqa: E402
from holdfast.comm.bench.timing import percentile  # noqa: E402
from holdfast.errors import ConfigError  # noqa: E402


def bench(*arguments: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_collective_beside_gloo_with_consistent_rows(tmp_path):
    picture = tmp_path / "bench.png"
    rows = rows_of(
        bench(
            *("-c", "all", "--sizes", "4K,256K", "--rounds", "2", "--json", "--pool"),
            *("--peers", "gloo", "--plot", str(picture)),
        )
    )
    assert {row["name"] for row in rows} == set(plan.COLLECTIVES)
    assert {row["contestant"] for row in rows} == {
        *("holdfast/shm", "holdfast/shm/pool", "holdfast/tcp", "gloo")
    }
    gloo = {(r["name"], r["bytes"]): r["time_us"] for r in rows if r["contestant"] == "gloo"}
    for row in rows:
        assert row["time_us"] > 0
        assert row["p50_us"] <= row["p95_us"] <= row["p99_us"]
        if row["contestant"] == "gloo":
            assert row["ratio"] is None
            continue
        expected = gloo[row["name"], row["bytes"]] / row["time_us"]
        assert row["ratios"]["gloo"] == pytest.approx(expected, rel=0.05, abs=0.01)
        if row["name"] != "barrier":
            factor = plan.bus_factor(row["name"], row["ranks"])
            assert row["busbw"] == pytest.approx(row["algbw"] * factor, rel=0.02, abs=1e-3)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_busy_neighbour_is_there_meanwhile_and_gone_afterwards():
    def computes(pid: int) -> bool:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks, nice = int(fields[11]), int(fields[16])
        return ticks > 0 and nice == 19

    deadline = time.monotonic() + 30
    with neighbours.busy(2) as pids:
        assert len(pids) == 2
        while not all(map(computes, pids)):
            assert time.monotonic() < deadline
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_neighbours_are_counted():
    done = bench("--neighbour", "65", "--peers", "none")
    assert done.returncode != 0
    assert "--neighbour 65; accepted: 0 to 64 busy processes" in done.stderr


def test_floors_take_turns_with_what_they_bound():
    rows = rows_of(
        bench(
            *("-c", "all", "--sizes", "256K", "--rounds", "2", "--json", "--roofline"),
            *("--peers", "none", "--dtypes", "bfloat16"),
        )
    )
    floors = {
        (r["name"], r["contestant"]): r["time_us"] for r in rows if "floor" in r["contestant"]
    }
    assert {name for name, floor in floors if floor == "floor/shm"} == set(plan.COLLECTIVES)
    for row in rows:
        transport = row["contestant"].split("/")[1]
        if row["contestant"].startswith("holdfast"):
            assert row["floor_us"] == floors.get((row["name"], f"floor/{transport}"))
            assert row["ratios"] == {}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_floor_of_a_collective_is_its_fewest_bytes(ranks):
    count = 12 * ranks

    def total(collective):
        parts = [roofline.memory_work(collective, r, ranks, count) for r in range(ranks)]
        added = sum(elements * operands for elements, operands, _ in parts)
        return added, sum(copied for _, _, copied in parts)

    # Every operand is added once; what another rank has made is copied once.
    assert total("all_reduce") == (count * (ranks - 1), ranks * count - count)
    assert total("reduce_scatter") == (count * (ranks - 1), 0)
    assert total("all_gather") == (0, ranks * count)
    assert total("broadcast") == (0, count * (ranks - 1))
    assert total("barrier") == (0, 0)
    for collective in ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter"):
        wire = [roofline.wire_bytes(collective, r, ranks, 4096) for r in range(ranks)]
        assert all(w is not None for w in wire)
        for r in range(ranks):
            assert wire[r][0] == wire[(r + 1) % ranks][1], "what is sent is taken"
    assert roofline.wire_bytes("gather", 0, ranks, 4096) is None


def test_ops_beside_a_computation():
    rows = rows_of(
        bench(
            *("--overlap", "--sizes", "64K", "--rounds", "2", "--json", "--peers", "gloo"),
            *("-c", ",".join(overlap.COLLECTIVES)),
        )
    )
    assert {row["name"] for row in rows} == set(overlap.COLLECTIVES)
    assert {row["contestant"] for row in rows} == {"holdfast/shm", "holdfast/tcp", "gloo"}
    for row in rows:
        assert row["both_us"] > 0
        assert 0 <= row["hidden"] <= 1
    refused = bench("--overlap", "-c", "gather")
    assert refused.returncode != 0
    assert "all_reduce,broadcast" in refused.stderr


def test_what_is_hidden_and_what_is_slowed():
    row = overlap.Row(2, "all_reduce", 1024, "float32", "gloo", 10.0, 4.0, 11.0, 10.5, True)
    assert row.hidden == pytest.approx(0.75)
    assert row.slowed == pytest.approx(0.05)


def test_groups_algorithms_and_dtypes_may_be_chosen():
    rows = rows_of(
        bench(
            *("-c", "all_reduce", "--sizes", "64K", "--rounds", "1", "--json", "--api", "group"),
            *("--algorithm", "ring,halving_doubling", "--dtypes", "float64,int32"),
            *("--transport", "tcp", "--peers", "none", "-n", "3"),
        )
    )
    assert {(row["contestant"], row["dtype"]) for row in rows} == {
        (f"holdfast/tcp/{algorithm}", dtype)
        for algorithm in ("ring", "halving_doubling")
        for dtype in ("float64", "int32")
    }


def test_the_table_names_every_row():
    done = bench("-c", "barrier", "--rounds", "1", "--peers", "gloo")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["ranks", "collective", "size"]
    assert len(lines) == 4
    assert all("barrier" in line for line in lines[1:])


MPIEXEC = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")


@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None,
    reason="waits for mpi4py and an MPI (pip install mpi4py mpich)",
)
def test_mpi_takes_part():
    rows = rows_of(bench("-c", "all_reduce", "--sizes", "4K", "--rounds", "1", "--json"))
    assert len({row["contestant"] for row in rows}) == 4


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["-c", "all_reduces"], ["all_reduces", "accepted", "reduce_scatter"]),
        (["--sizes", "4Q"], ["4Q", "64K"]),
        (["--min", "4M", "--max", "4K"], ["largest size"]),
        (["-n", "1"], ["1", "from 2"]),
        (["--dtypes", "float31"], ["float31", "bfloat16"]),
        (["--transport", "pigeon"], ["pigeon", "shm"]),
        (["--peers", "nccl"], ["nccl", "gloo"]),
        (["--mpiexec", "/nowhere/mpiexec"], ["/nowhere/mpiexec"]),
    ],
)
def test_bad_arguments_are_refused_with_what_is_accepted(arguments, parts):
    if "--mpiexec" in arguments and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("waits for mpi4py")
    done = bench(*arguments, timeout_s=30)
    assert done.returncode == 2
    for part in parts:
        assert part in done.stderr


def test_sizes_and_percentiles():
    assert plan.parse_size("64K") == 65536
    assert plan.parse_size("2MiB") == 2 << 20
    assert plan.sizes_between(4, 300, 8) == (4, 32, 256)
    with pytest.raises(ConfigError):
        plan.parse_size("0")
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0
    assert percentile([7.0], 0.5) == 7.0
    assert report.size_text(65536) == "64K"
    assert report.size_text(100) == "100"


def test_bus_bandwidth_is_that_of_nccl_tests():
    assert plan.bus_factor("all_reduce", 4) == 1.5
    assert plan.bus_factor("all_gather", 4) == 0.75
    assert plan.bus_factor("broadcast", 4) == 1.0


def test_churn_tells_how_long_a_killed_rank_costs():
    world = ("--churn", "-n", "3", "--sizes", "4K", "--transport", "tcp", "--hosts", "2")
    rows = rows_of(bench(*world, "--children=1", "--kills=2", "--json"))
    assert [(row["transport"], row["ranks"], row["bytes"]) for row in rows] == [("tcp", 3, 4096)]
    (row,) = rows
    assert (row["hosts"], row["children"]) == (2, 1)
    assert len(row["recoveries_ms"]) == 2
    assert row["op_ms"] > 0
    assert row["from_kill_ms"] > 0
    refused = bench("--churn", "--kills", "0")
    assert refused.returncode != 0
    assert "--kills 0; accepted" in refused.stderr
    refused = bench("--churn", "--hosts", "3")
    assert refused.returncode != 0
    assert "--hosts 3; accepted" in refused.stderr


def test_codecs_send_as_many_bytes_as_they_say_and_err_as_much():
    rows = rows_of(
        bench(
            *("--codec", "int8+int4+onebit", "-c", "all_reduce,all_gather", "--sizes", "1M"),
            *("-n", "2", "--transport", "tcp", "--peers", "gloo", "--rounds", "3", "--json"),
        )
    )
    by = {(r["name"], r["contestant"].split("/")[1].split("(")[0]): r for r in rows}
    assert ("all_reduce", "float32") in by
    for name, least, error in (("int8", 3.7, 0.02), ("int4", 7, 0.2), ("onebit", 27, 1.0)):
        row = by["all_reduce", name]
        assert row["plain_bytes"] / row["wire_bytes"] > least
        assert 0 < row["error"] < error
        assert row["encode_by_memcpy"] > 0
        assert by["all_gather", name]["wire_bytes"] < by["all_gather", "float32"]["wire_bytes"]
    assert any(r["contestant"] == "gloo/float32" for r in rows)


def test_codecs_that_do_not_exist_are_refused():
    done = bench("--codec", "mp3")
    assert done.returncode != 0
    assert "mp3" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_what_is_routed_to_a_rank_is_what_the_others_give_it(ranks):
    count = 10_000
    given, taken = zip(*(routing.splits(r, ranks, count) for r in range(ranks)), strict=True)
    assert all(sum(row) == count for row in given)
    assert [list(column) for column in zip(*given, strict=True)] == list(taken)
    assert any(0 in row for row in given)
    assert sum(taken[0]) > sum(taken[-1])
    assert routing.first_source([0, 0, 3]) == 2
    assert routing.first_source([0, 0]) is None
