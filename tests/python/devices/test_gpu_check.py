"""`make gpu`: its programs, over the emulated device, and what its table says of rows that fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip(
    "torch", reason="waits for torch: two programs train and overlap with it"
)

GPU = Path(__file__).resolve().parents[2] / "gpu"
sys.path.insert(0, str(GPU))

import execution  # noqa: E402
import native_tests  # noqa: E402
import overlap  # noqa: E402
import readings  # noqa: E402
import results_table  # noqa: E402
import run  # noqa: E402
from catalogue import ROWS  # noqa: E402
from row import Reading, Result, Row  # noqa: E402

DEVICE = {"lacks": "", "name": "a device", "why": "driver 12.0"}
PARTS = {
    "device": DEVICE,
    **dict.fromkeys(("torch", "torch_cuda", "pytest", "cc", "sanitizer"), ""),
}
# Those that have programs of their own; the tests among the rows are run as tests.
PROGRAMS = ("ddp-2", "overlap", "gather", "kill", "errors", "reduce")


def row_of(name: str, code: str, limit_s: float = 20, **more: object) -> Row:
    """A row whose program is a line of Python; the figure is the JSON's `figure`."""

    def read(lines: list[dict]) -> Reading:
        return Reading(lines[0]["figure"], lines[0]["holds"])

    commands = (("python", "-c", code),)
    return Row(name, f"what {name}", "all", 1, commands, commands, read, limit_s, **more)


def prints(figure: str, holds: bool) -> str:
    return f"import json; print(json.dumps({{'figure': {figure!r}, 'holds': {holds}}}))"


GOOD = row_of("good", prints("12 | 13", True))
BAD = row_of("bad", prints("7", False))


@pytest.fixture
def runner(tmp_path):
    with (tmp_path / "log").open("w") as log:
        yield execution.Runner(tmp_path, log)


def test_the_programs_work_over_the_emulated_device_and_leave_no_figure(tmp_path):
    docs, out = tmp_path / "docs.md", tmp_path / "out.md"
    docs.write_text(run.DOCS.read_text())
    done = subprocess.run(
        [
            *(sys.executable, str(GPU / "run.py"), "--emulated", "--only", ",".join(PROGRAMS)),
            *("--out", str(out), "--write", str(docs), "--log", str(tmp_path / "log")),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "log").read_text()
    told = {line.split()[0]: line for line in done.stdout.splitlines()}
    for name in PROGRAMS:
        # Native programs are built by ctest, which a test of the wheel does not ask for.
        is_built = name != "reduce" or (run.ROOT / run.NATIVE / "device_rates").is_file()
        assert ("works" if is_built else "is not built") in told[name], told
    assert docs.read_text() == run.DOCS.read_text()
    rows = results_table.parse(out.read_text())
    assert list(rows) == list(results_table.parse(docs.read_text()))
    reasons = {cells[2] for cells in rows.values()}
    assert reasons <= {"not run", "not run: no CUDA device", "not run: rehearsed, not run"}, reasons


def test_the_page_has_the_rows_and_commands_of_the_catalogue():
    rows = results_table.parse(run.DOCS.read_text())
    assert list(rows) == [row.what for row in ROWS]
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        what, asked, _, how = rows[row.what]
        assert (what, asked) == (row.what, row.asked)
        assert results_table.commands_of(row) in how
        for command in (*row.commands, *row.rehearsal):
            files = [word for word in command if word.startswith("tests/")]
            assert all((run.ROOT / file).is_file() for file in files), command


@pytest.mark.parametrize(
    "program",
    [
        "ddp_equals_cpu",
        "host_tensor_gather",
        "kill_with_kernels",
        "mixed_and_errors",
        "native_tests",
        "overlap",
        "run",
    ],
)
def test_every_program_tells_how_it_is_called_and_its_options(program):
    command = [sys.executable, str(GPU / f"{program}.py"), "--help"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"python tests/gpu/{program}.py" in told
    assert "--write" in told if program == "run" else "--driver" in told


def test_a_row_is_passed_or_failed_by_its_bound(runner):
    assert runner.run_row(GOOD).status == "passed"
    failed = runner.run_row(BAD)
    assert (failed.status, failed.text) == ("failed", "7")
    # Over the emulated device a speed holds whatever it is, and a wrong result does not.
    timed = row_of("timed", prints("8", False), is_timed=True)
    assert runner.run_row(timed, rehearse=True).status == "passed"
    assert runner.run_row(timed).status == "failed"
    assert runner.run_row(BAD, rehearse=True).status == "failed"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys; sys.exit('it broke')", "status 1: it broke"),
        ("import os; os.abort()", "status -6: it said nothing"),
        ("print('{\"figure\": ')", "no figure: IndexError"),
        ("print('{\"other\": 1}')", "no figure: KeyError"),
    ],
)
def test_a_program_that_breaks_or_tells_no_figure_has_failed(code, text, runner):
    result = runner.run_row(row_of("broken", code))
    assert result.status == "failed"
    assert text in result.text


def test_a_row_that_hangs_is_out_of_time_and_leaves_nothing_running(runner, tmp_path):
    kept = tmp_path / "pid"
    sleeps = f"import os, time; open({str(kept)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = (
        "import subprocess, sys, time; print('begun', flush=True); "
        f"subprocess.Popen([sys.executable, '-c', {sleeps!r}]); time.sleep(600)"
    )
    result = runner.run_row(row_of("hangs", code, limit_s=3))
    assert result.status == "failed"
    assert "out of time, after 3 s: begun" in result.text
    gone = time.monotonic() + 20
    while Path(f"/proc/{kept.read_text()}/stat").is_file() and time.monotonic() < gone:
        # Of an orphan that was killed a zombie may be left until somebody asks for it.
        if Path(f"/proc/{kept.read_text()}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
    assert time.monotonic() < gone


def test_what_the_budget_does_not_reach_is_not_run(runner):
    runner.deadline = time.monotonic() + 1
    late = runner.run_row(row_of("late", "import time; time.sleep(60)", limit_s=30))
    assert (late.status, late.text) == ("not run", "out of time")
    assert runner.run_row(GOOD) == Result("not run", "out of time", pytest.approx(0, abs=0.1))


def test_what_lacks_something_is_not_run_and_says_what(runner):
    lacks = row_of("lacks", "import sys; print('no torch'); sys.exit(3)")
    assert runner.run_row(lacks).text == "no torch"
    built = Row("built", "", "", 1, ((f"{run.NATIVE}/none",),), (), readings.native, 5)
    result = runner.run_row(built)
    assert (result.status, result.text) == ("not run", f"{run.NATIVE}/none is not built")
    parts = {**PARTS, "torch_cuda": "torch sees none"}
    needs = row_of("needs", "", needs=("torch_cuda",))
    assert run.lacking(needs, parts, emulated=False) == "torch sees none"
    assert run.lacking(needs, parts, emulated=True) == ""
    assert run.lacking(GOOD, parts, emulated=False) == ""


def test_a_command_that_rows_share_is_run_once(runner, tmp_path):
    kept = tmp_path / "runs"
    code = f"open({str(kept)!r}, 'a').write('x'); {prints('1', True)}"
    first, second = row_of("shared", code), row_of("shared", code)
    assert runner.run_row(first).text == runner.run_row(second).text == "1"
    assert kept.read_text() == "x"


def test_on_a_gpu_the_table_is_filled_and_what_was_measured_stays(tmp_path, monkeypatch, capsys):
    lacks = row_of("lacks", "import sys; print('no torch'); sys.exit(3)")
    rows = (GOOD, BAD, lacks)
    monkeypatch.setattr(run, "ROWS", rows)
    monkeypatch.setattr(run, "probe", lambda: PARTS)
    docs, out = tmp_path / "docs.md", tmp_path / "out.md"
    begun = [results_table.cells_of(row, Result("not run", ""), "") for row in rows]
    begun[2] = (lacks.what, "all", "passed: 99", "another device")
    docs.write_text("before\n\n" + results_table.render(begun) + "\nbehind\n")
    options = ["--out", str(out), "--log", str(tmp_path / "log"), "--commit", "abc"]
    assert run.main([*options, "--write", str(docs)]) == 1
    filled = results_table.parse(docs.read_text())
    assert filled[GOOD.what][2] == "passed: 12 / 13"
    assert filled[GOOD.what][3].startswith("a device, abc, `python -c")
    assert filled[BAD.what][2] == "**failed**: 7"
    assert filled[lacks.what][2:] == ("passed: 99", "another device")
    assert docs.read_text().startswith("before\n\n| what")
    assert docs.read_text().endswith("|\n\nbehind\n")
    assert results_table.parse(out.read_text())[lacks.what][2] == "not run: no torch"
    capsys.readouterr()
    assert run.main([*options, "--resume"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1]] == ["lacks"]
    assert results_table.parse(out.read_text())[BAD.what][2] == "**failed**: 7"


def test_options_that_cannot_be_name_what_is_accepted(capsys):
    for bad, text in ((["--only", "kil"], "accepted: parity"), (["--resume"], "--out")):
        with pytest.raises(SystemExit):
            run.main(bad)
        assert text in capsys.readouterr().err


def test_tests_are_counted_and_those_that_all_skip_were_not_run(runner):
    def row(expression: str) -> Row:
        command = ("HOLDFAST_TEST_CUDA_DRIVER=emulated", "python", "-m", "pytest")
        chosen = (*command, "tests/test_tidy.py", "-k", expression)
        return Row("tests", "", "", 1, (chosen,), (), readings.tests, 60)

    passed = runner.run_row(row("specimen and names_say_what"))
    assert (passed.status, passed.text) == ("passed", "2 passed")
    assert "status 5" in runner.run_row(row("no_such_test")).text
    skipped = {"name": "pytest", "passed": 0, "failed": 0, "skipped": 1, "reasons": ["no device"]}
    assert execution.read(row(""), [skipped]) == Result("not run", "no device")
    failed = {**skipped, "failed": 1, "failures": ["test_a: it broke"]}
    assert (
        execution.read(row(""), [failed]).text == "1 failed; 1 skipped; test_a: it broke; no device"
    )


def test_native_tests_count_on_the_gpu_alone_and_findings_are_told(tmp_path):
    def write(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    write(tmp_path / "test_device_a", 'echo "MESSAGE: on the GPU"')
    write(tmp_path / "test_device_b", 'echo "MESSAGE: on the emulator; on a GPU: skipped"')
    write(tmp_path / "sanitizer", 'while [ "$1" != 86 ]; do shift; done; shift; "$@"; exit 86')

    def told(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, native_tests.__file__, "--folder", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    both = told("--tests", "a,b")
    assert both.returncode == execution.LACKS
    assert "ran on the emulator" in both.stdout
    one = execution.json_lines(told("--tests", "a").stdout)
    assert readings.native(one) == Reading("1 passed", True)
    sanitizer = ("--tools", "memcheck", "--sanitizer", str(tmp_path / "sanitizer"))
    found = readings.native(execution.json_lines(told("--tests", "a", *sanitizer).stdout))
    assert not found.holds
    assert "memcheck test_device_a: status 86" in found.figure
    assert "not built" in told("--tests", "c").stdout


def test_figures_are_held_to_their_bounds():
    assert overlap.hidden(compute=2, comm=1, both=2) == 1
    assert overlap.hidden(compute=2, comm=1, both=3) == 0
    rates = [{"name": "copy", "of_copy": 1.0, "gb_s": 4000}]
    rates += [{"name": f"sum of {n}", "of_copy": part} for n, part in ((2, 0.9), (4, 0.7))]
    assert not readings.rates(("sum of",), 0.8)(rates).holds
    assert "below 0.8: sum of 4 0.70" in readings.rates(("sum of",), 0.8)(rates).figure
    assert readings.rates(("sum of",), 0.7)(rates).holds
    direct = {"path": "direct", "ranks": 2, "peer_mappings": 1, "algbw": 9, "of_copy_bound": 0.7}
    sizes = [{**direct, "bytes": b, "ratio": r} for b, r in ((1, 1.2), (2, 0.9), (4, 1.5))]
    assert "2 ranks from 4 bytes" in readings.ipc_from(sizes).figure
    assert readings.ipc_rate(0.6)([direct]).holds
    assert not readings.ipc_rate(0.8)([direct]).holds
    # What went through the host is no figure of the direct path.
    assert not readings.ipc_rate(0.6)([{**direct, "peer_mappings": 0}]).holds
    ddp = {"name": "ddp equals cpu", "steps": 12, "ops": 9, "direct_ops": 4, "alike": True}
    assert readings.ddp([{**ddp, "deviation": 1e-13}]).holds
    assert not readings.ddp([{**ddp, "deviation": 1e-3}]).holds
    assert not readings.ddp([{**ddp, "deviation": 0.0, "alike": False}]).holds
    kill = {"name": "kill with kernels", "ipc": "auto", "kills": 4, "expected_kills": 4}
    kill |= {"survivors": 4, "direct_ops": 8, "lost": []}
    assert readings.kills([kill]).holds
    assert not readings.kills([{**kill, "lost": ["status 1: CUDA_ERROR_ILLEGAL_ADDRESS"]}]).holds
    assert not readings.kills([{**kill, "kills": 3}]).holds
    errors = {"name": "mixed and errors", "checks": {"one call": "ok", "mixed group": "not run: -"}}
    assert readings.checks([errors]).holds
    assert not readings.checks([{**errors, "checks": {"one call": "no ConfigError"}}]).holds
    row = {"name": "host tensor gather", "gather_ms": 1, "cpu_ms": 2, "gather_gb_s": 9}
    row |= {"baseline": "torch", "threads": 8}
    assert readings.gather(1.5)([{**row, "ratio": 2.0}]).holds
    assert not readings.gather(1.5)([{**row, "ratio": 1.4}]).holds


def test_ranks_of_a_real_driver_are_never_forks(tmp_path):
    from ranks import finish, start_rank

    env = {"HOLDFAST_CUDA_DRIVER": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    process = start_rank("cuda_driver", "is_emulated", 0, 1, tmp_path, env)
    assert isinstance(process, subprocess.Popen)
    assert finish([process], 60)[0].status == 0
