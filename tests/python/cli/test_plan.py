"""Plans: measured at first use, saved, looked up; shown by ``holdfast plan``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ranks import finish, run_ranks, start_rank

from holdfast import ConfigError, Options, _core
from holdfast.topology.link_fit import fit

EMPTY = "holdfast-plan 1\n"


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "plan", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_first_use_measures_and_later_ones_and_runs_look_up(transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport, "HOLDFAST_PLAN": str(tmp_path / "plan.txt")}
    for outcome in run_ranks(
        "plan_ranks", "tune", 3, tmp_path, env={**env, "HOLDFAST_TUNE": "1"}, timeout_s=100
    ):
        assert outcome.status == 0, outcome.output
    tables = {(tmp_path / f"plan{r}").read_text() for r in range(3)}
    assert tables == {(tmp_path / "plan.txt").read_text()}
    rows = _core.plan_rows(tables.pop())
    assert {(row[0], row[1], row[3]) for row in rows} == {
        (collective, 3, transport == "shm")
        for collective in ("all_reduce", "all_gather", "all_to_all")
    }
    assert ("all_reduce", "ring") in {(row[0], row[5]) for row in rows}
    assert ("shared_memory" in {row[5] for row in rows}) == (transport == "shm")
    (tmp_path / "directory").rename(tmp_path / "old")
    for outcome in run_ranks("plan_ranks", "use", 3, tmp_path, env=env, timeout_s=60):
        assert outcome.status == 0, outcome.output
    assert (tmp_path / "used0").read_text() == (tmp_path / "plan.txt").read_text()


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("tuned", [True, False])
def test_calls_whose_sizes_differ_by_rank_are_not_chosen_for(transport, tuned, tmp_path):
    file = tmp_path / "plan.txt"
    env = {"HOLDFAST_TRANSPORTS": transport, "HOLDFAST_TIMEOUT": "30"}
    if tuned:
        env["HOLDFAST_TUNE"] = "1"
    else:
        via = "shm" if transport == "shm" else "tcp"
        sizes = [1 << power for power in range(6, 24, 3)]
        names = {"all_to_all": ("pairwise", "bruck"), "all_reduce": ("ring", "flat")}
        lines = [
            f"{collective} 3 1 {via} {size} {algorithms[i % 2]} 1e-6"
            for collective, algorithms in names.items()
            for i, size in enumerate(sizes)
        ]
        file.write_text("\n".join(["holdfast-plan 1", *lines, ""]))
        env["HOLDFAST_PLAN"] = str(file)
    for outcome in run_ranks("plan_ranks", "uneven", 3, tmp_path, env=env, timeout_s=60):
        assert outcome.status == 0, outcome.output
    assert len({(tmp_path / f"uneven{r}").read_text() for r in range(3)}) == 1


def test_ranks_with_other_settings_are_all_refused_by_name(tmp_path):
    for outcome in run_ranks("plan_ranks", "differ", 3, tmp_path, timeout_s=60):
        assert outcome.status == 0, outcome.output
        assert "tune: 1" in outcome.output
        assert "tune: 0" in outcome.output
        assert "rank 1" in outcome.output


@pytest.mark.parametrize("tuned", [True, False])
def test_a_rank_that_comes_back_and_those_that_measured_choose_alike(tuned, tmp_path):
    env = {"HOLDFAST_TIMEOUT": "30"}
    if tuned:
        env["HOLDFAST_TUNE"] = "1"
    else:
        file = tmp_path / "plan.txt"
        rows = [
            f"all_gather 3 1 shm {1 << p} {'ring' if p % 2 else 'bruck'} 1e-6" for p in range(30)
        ]
        file.write_text("\n".join(["holdfast-plan 1", *rows, ""]))
        env["HOLDFAST_PLAN"] = str(file)
    processes = [start_rank("plan_ranks", "come_back", r, 3, tmp_path, env) for r in range(3)]
    killed = processes[1]
    assert killed.stdout is not None
    assert "ready" in killed.stdout.readline()
    killed.wait(20)
    killed.stdout.close()
    processes[1] = start_rank("plan_ranks", "come_back", 1, 3, tmp_path, env)
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output
    assert len({(tmp_path / f"back{r}").read_text() for r in range(3)}) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("all_reduce\n", "line 1"),
        (f"{EMPTY}all_reduce 2 1 tcp 4 magic 1\n", "algorithm magic"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_line(text, named, tmp_path):
    file = tmp_path / "plan.txt"
    file.write_text(text)
    with pytest.raises(ConfigError, match=named):
        Options(plan=str(file))


def test_a_missing_file_is_refused_unless_it_is_about_to_be_made(tmp_path):
    missing = str(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match=r"none.txt: No such file"):
        Options(plan=missing)
    Options(plan=missing, tune=True)
    with pytest.raises(ConfigError, match="together with plan"):
        Options(algorithm="ring", tune=True)


def test_the_command_goes_by_the_model_where_nothing_was_measured():
    rows = rows_of(plan("-n", "2,8", "--hosts", "2", "--sizes", "1K,16M", "--json"))
    assert len(rows) == 2 * 6 * 2
    assert {row["transport"] for row in rows} == {"tcp"}
    large = next(r for r in rows if (r["ranks"], r["bytes"]) == (8, 16 << 20))
    assert large["algorithm"] == "two_level"
    assert large["why"].startswith("predicted; next: ")
    assert {row["way"] for row in rows} == {"schedule"}
    small = next(r for r in rows if (r["collective"], r["bytes"]) == ("reduce_scatter", 1024))
    assert small["why"].startswith("carried as all_reduce; predicted; next: ")
    shared = rows_of(plan("--sizes", "1K,16M", "--transport", "shm", "--json"))
    ways = {row["bytes"]: row["way"] for row in shared if row["collective"] == "all_reduce"}
    assert ways == {1024: "flat", 16 << 20: "slices"}
    assert {row["algorithm"] for row in shared} == {"shared_memory"}
    assert all(row["why"].startswith("one host, and ") for row in shared)


def test_the_command_measures_writes_and_shows_what_it_wrote(tmp_path):
    file = tmp_path / "plan.txt"
    where = ("-n", "2", "-c", "all_reduce,broadcast", "--sizes", "4K,64K")
    rows_of(plan(*where, "--measure", "-o", str(file), "--json"))
    rows = rows_of(plan(*where, "--plan", str(file), "--json"))
    assert all(row["why"].startswith("measured") for row in rows)
    assert {row["transport"] for row in rows} == {"shm", "tcp"}
    assert "link tcp" in file.read_text()
    measured = _core.plan_rows(file.read_text())
    for row in rows:
        key = (row["collective"], 2, 1, row["transport"] == "shm", row["bytes"])
        assert row["seconds"] == min(m[6] for m in measured if m[:5] == key)
    assert "algorithm" in plan(*where, "--plan", str(file)).stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("-n", "1"), "--ranks"),
        (("--hosts", "3"), "--hosts 3"),
        (("-o", "x"), "--measure"),
        (("-n", "4", "--hosts", "2", "--measure"), "--hosts 2"),
        (("--plan", "/nowhere"), "/nowhere"),
        (("-c", "sing"), "sing"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, named):
    done = plan(*arguments)
    assert done.returncode != 0
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_the_fit_finds_the_constants_that_made_the_times():
    terms = [(2.0, 1e3, 0.0), (4.0, 1e6, 5e5), (2.0, 1e7, 1e7), (8.0, 1e2, 1e2)]
    times = [2e-6 * m + 3e-10 * w + 1e-10 * r for m, w, r in terms]
    model = fit(terms, times)
    assert model is not None
    assert model.alpha == pytest.approx(2e-6)
    assert model.beta == pytest.approx(3e-10)
    assert model.gamma == pytest.approx(1e-10)
    assert fit(terms[:2], times[:2]) is None
    negative = fit(terms, [max(1e-9, 1e-6 * m - 1e-13 * w) for m, w, _ in terms])
    assert negative is not None
    assert min(negative.alpha, negative.beta, negative.gamma) >= 0
