"""The command line: info, run, and what run tells of ranks that fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import cli

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]


def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_reader_that_has_enough_is_no_traceback():
    command = [*HOLDFAST, "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as told:
        told.stdout.close()
        assert told.stderr.read() == b""
        assert told.wait(60) == 128 + signal.SIGPIPE


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("command", [(), ("info",), ("run",)])
def test_every_command_has_help_with_an_example(command):
    done = call(*command, "--help")
    assert done.returncode == 0
    assert not command or "example: holdfast " + command[0] in done.stdout


def test_info_is_readable_by_programs():
    info = json.loads(call("info", "--json").stdout)
    assert info["version"] == holdfast.__version__
    assert {row["algorithm"] for row in info["algorithms"]} >= {"ring", "flat", "pairwise"}
    assert info["dtypes"]
    assert info["instructions"]
    for part in info["parts"].values():
        assert part["on"] or part["why"]
    assert all(option["source"] == "default" for option in info["options"].values())


@pytest.fixture
def info(monkeypatch, capsys):
    """What `holdfast info` says, in this process: torch is imported once for all of them."""

    def say(*arguments: str, **env: str) -> str:
        with monkeypatch.context() as here:
            for variable, value in env.items():
                here.setenv(variable, value)
            assert cli.main(["info", *arguments]) == 0
        return capsys.readouterr().out

    return say


def test_info_says_what_would_be_encoded(info):
    assert "encoded without being asked for: nothing" in info()
    told = json.loads(info("--json", HOLDFAST_CODEC="int8"))
    assert "reduce_scatter" in told["encoded"]
    assert "from 65536 bytes: int8(block=128), without error feedback" in told["encoded"]
    assert "int8" in told["codecs"]
    coded = {(r["collective"], r["algorithm"]) for r in told["algorithms"] if r["codec"]}
    assert ("all_reduce", "two_level_coded") in coded


def test_info_tells_where_an_option_comes_from(info):
    told = info("--json", HOLDFAST_TRANSPORTS="tcp", HOLDFAST_PORT=" ")
    options = json.loads(told)["options"]
    assert options["transports"] == {"value": ["tcp"], "source": "HOLDFAST_TRANSPORTS"}
    assert options["port"] == {"value": 0, "source": "default"}


def test_info_is_readable_by_people(info):
    text = info()
    for word in (holdfast.__version__, "PyTorch backend", "transports", "all_reduce", "ring"):
        assert word in text


def test_info_refuses_an_option_that_cannot_be_used():
    done = call("info", HOLDFAST_TIMEOUT="soon")
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: HOLDFAST_TIMEOUT = 'soon'; accepted: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "-n", "0", __file__), "accepted: 1 to"),
        (("run", "-n", "2", "no-such-script.py"), "no script 'no-such-script.py'"),
        (("run", "-n", "two", __file__), "invalid int value"),
        (("run", __file__), "-n"),
        (("fly",), "invalid choice"),
        ((), "COMMAND"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, told):
    done = call(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_ranks_learn_who_they_are_and_get_their_arguments(script):
    path = script(
        "import json, os, sys\n"
        "names = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR',\n"
        "         'MASTER_PORT', 'HOLDFAST_STORE')\n"
        "print(json.dumps([os.environ[n] for n in names] + sys.argv[1:]))\n"
    )
    done = call("run", "-n", "3", path, "--epochs", "3", "-n", "9")
    assert done.returncode == 0, done.stderr
    told = sorted(json.loads(line) for line in done.stdout.splitlines())
    assert [t[0] for t in told] == ["0", "1", "2"]
    assert all(t[1] == "3" and t[2] == t[0] and t[3] == "3" for t in told)
    assert all(t[7:] == ["--epochs", "3", "-n", "9"] for t in told)
    assert len({(t[4], t[5], t[6]) for t in told}) == 1
    assert not Path(told[0][6].removeprefix("file://")).exists()


def test_nobody_but_who_asks_for_it_is_given_the_port_of_a_run(script):
    path = script(
        "import os, socket\n"
        "port = int(os.environ['MASTER_PORT'])\n"
        "with socket.socket() as other:\n"
        "    try: other.bind(('127.0.0.1', port))\n"
        "    except OSError as error: print(error.strerror)\n"
        "with socket.create_server(('127.0.0.1', port)): print('listens')\n"
    )
    done = call("run", "-n", "1", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Address already in use", "listens"]


def test_ranks_of_one_run_meet(script):
    path = script(
        "import holdfast, numpy as np\n"
        "with holdfast.init() as group:\n"
        "    a = np.array([float(group.rank)])\n"
        "    group.all_reduce(a)\n"
        "    print('sum', a[0])\n"
    )
    done = call("run", "-n", "4", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["sum 6.0"] * 4


def test_tagged_lines_are_whole_and_none_is_lost(script):
    path = script("for i in range(2000): print('line', i, 'x' * 50)\n")
    done = call("run", "-n", "3", "--tag-output", path)
    lines = done.stdout.splitlines()
    for rank in range(3):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] line {i} {'x' * 50}" for i in range(2000)]


def test_tagged_lines_come_while_the_rank_still_runs(script):
    path = script("import time\nprint('early')\ntime.sleep(60)\n")
    with started("run", "-n", "1", "--tag-output", path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "[0] early\n"


def test_the_rank_that_failed_is_named_with_its_status(script):
    path = script("import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n")
    done = call("run", "-n", "3", path)
    assert done.returncode == 7
    assert "rank 1 exited with status 7" in done.stderr


def test_a_rank_ended_by_a_signal_is_named_with_the_signal(script):
    path = script(
        "import os, signal, time\n"
        "if os.environ['RANK'] == '2': os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    done = call("run", "-n", "3", "--grace", "0.2", path)
    assert time.monotonic() - start < 20
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 2 was ended by SIGKILL" in done.stderr
    assert "rank 0" not in done.stderr


def test_ranks_that_will_not_end_are_ended_for_good(script, tmp_path):
    path = script(
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(str(os.getpid()))\n"
        f"while not pathlib.Path({str(tmp_path)!r}, '1').exists(): time.sleep(0.01)\n"
        "if os.environ['RANK'] == '0': sys.exit(3)\n"
        "time.sleep(60)\n"
    )
    done = call("run", "-n", "2", "--grace", "0.1", path)
    assert done.returncode == 3
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "1").read_text()), 0)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*HOLDFAST, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_ranks(number, script):
    path = script(
        "import os, signal, sys, time\n"
        "def leave(number, frame):\n"
        "    os.write(1, b'got %d\\n' % number)\n"
        "    sys.exit(5)\n"
        f"signal.signal({int(number)}, leave)\n"
        "os.write(1, b'ready\\n')\n"
        "time.sleep(60)\n"
    )
    with started("run", "-n", "2", path) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 5
        assert output.splitlines() == [f"got {int(number)}"] * 2
