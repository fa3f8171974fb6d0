"""What a long path costs members: deaths, an outage longer than `grace`, flaps while they change.

    python tests/bench/far_members.py deaths --count 7 --delay-ms 20
    python tests/bench/far_members.py outage --outage 30
    python tests/bench/far_members.py boundaries --outage 2 --count 3

Three ranks, two in one network namespace and one in another one, with an emulated path in between
(tests/python/support/emulated_path.py), each as a host of its own. `deaths` kills the one behind
the path, in each of the ways that its end can be known, until the last of the others has its next
result. `outage` tells what becomes of a member that cannot be reached for longer than `grace`.
`boundaries` has the path still while members advance, or a newcomer joins, or it syncs. Prints
Markdown. Needs root, `ip` and /dev/net/tun; says what is missing, and ends with status 2, where
they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/secure"))

import grace_ranks
import numpy as np
from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import Process, finish, importing, start_rank

from holdfast.cli import main as holdfast_command

LIMIT_S = 120.0
COORDINATOR_PORT = 29500
VICTIM = 2
CHILDREN = 4
STATE_BYTES = 16 << 20


# ---- what ranks do ------------------------------------------------------------------------------


def with_children() -> None:
    """Have children that live on when this rank is killed, and then as `grace_ranks` has it."""
    for _ in range(CHILDREN if int(os.environ["RANK"]) == VICTIM else 0):
        if os.fork() == 0:
            until = time.monotonic() + LIMIT_S
            while not Path("over").exists() and time.monotonic() < until:
                time.sleep(0.05)
            os._exit(0)
    grace_ranks.until_one_is_missing()


def comes_back() -> None:
    """Reduce at each boundary until all are told to stop; join again when this rank is out."""
    import holdfast

    told: list[tuple[str, float]] = []
    group = holdfast.join(os.environ["URL"], min_peers=3)
    print("WARM", flush=True)
    wrong, stops, live = 0, False, 3
    while not stops:
        try:
            group.advance()
            data = np.ones(1000, np.float32)
            data[0] = Path("stop").exists()
            group.all_reduce(data)
            assert group.outcome is not None
            wrong += int(data[1]) != 3 - len(group.outcome.missing)
            stops = bool(data[0])
            if len(group.live_ranks) != live:
                live = len(group.live_ranks)
                told.append((f"{live} ranks", time.monotonic()))
        except holdfast.NotMember:
            told.append(("out", time.monotonic()))
            group = holdfast.join(os.environ["URL"])
            told.append(("back", time.monotonic()))
    print("TOLD", json.dumps({"events": told, "wrong": wrong}), flush=True)
    group.leave()


def advances() -> None:
    """Advance and reduce until all are told to stop; who comes later syncs first."""
    import holdfast

    began = time.monotonic()
    comes_late = "LATE" in os.environ
    group = holdfast.join(os.environ["URL"], min_peers=3)
    joined = time.monotonic()
    print("WARM", flush=True)
    state = {"w": np.full(STATE_BYTES // 4, group.epoch, np.float32)}
    begun, took, stops = [], [], False
    while not stops:
        begun.append(time.monotonic())
        if group.advance().joined or comes_late:
            group.sync(state)
            comes_late = False
            told = time.monotonic()
        data = np.ones(1000, np.float32)
        data[0] = Path("stop").exists()
        group.all_reduce(data)
        took.append(time.monotonic() - begun[-1])
        stops = bool(data[0])
    newcomer = {"join": joined - began, "sync": told - joined} if "LATE" in os.environ else {}
    print("TOLD", json.dumps({"begun": begun, "took": took, **newcomer}), flush=True)
    group.leave()


# ---- jobs ---------------------------------------------------------------------------------------


@contextmanager
def coordinator(path: LongPath, here: Path, env: dict[str, str]) -> Iterator[str]:
    secret = env.get("HOLDFAST_SECRET_FILE")
    command = ["--address", path.address(0), "--port", str(COORDINATOR_PORT)]
    command += ["--secret-file", secret] if secret else ["--insecure"]
    process = subprocess.Popen(
        [*path.inside(0), sys.executable, "-m", "holdfast.cli", "coordinator", *command],
        stdout=subprocess.PIPE,
        stderr=(here / "coordinator.log").open("w"),
        text=True,
        cwd=here,
        env={**os.environ, **env},
    )
    try:
        assert process.stdout is not None
        assert "listens" in process.stdout.readline()
        yield f"{path.address(0)}:{COORDINATOR_PORT}"
    finally:
        process.terminate()
        process.wait(20)


def place_of(rank: int) -> int:
    return int(rank == VICTIM)


def start(path: LongPath, module: str, function: str, rank: int, here: Path, env: dict) -> Process:
    own = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_TIMEOUT": str(LIMIT_S),
        "HOLDFAST_ADDRESS": path.address(place_of(rank)),
        "HOLDFAST_HOST_ID": f"host{rank}",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    at = path.inside(place_of(rank))
    return start_rank(module, function, rank, 3, here, {**own, **env}, at)


def launch(path: LongPath, rank: int, here: Path, env: dict[str, str]) -> Process:
    """Start one rank by `holdfast run`."""
    script = here / "rank.py"
    script.write_text(f"{importing('grace_ranks')}; grace_ranks.until_a_peer_is_missing()\n")
    own = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_TIMEOUT": str(LIMIT_S),
        "HOLDFAST_ADDRESS": path.address(place_of(rank)),
        "HOLDFAST_HOST_ID": f"host{rank}",
    }
    run = [sys.executable, "-m", "holdfast.cli", "run", "-n", "1", str(script)]
    return subprocess.Popen(
        [*path.inside(place_of(rank)), *run],
        env={**os.environ, **own, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=here,
    )


def await_word(process: Process, word: str) -> str:
    assert process.stdout is not None
    said = []
    while line := process.stdout.readline():
        if word in line:
            return line
        said.append(line)
    raise RuntimeError("".join(said))


def told_by(output: str, mark: str) -> dict:
    lines = [line for line in output.splitlines() if line.startswith(mark)]
    if len(lines) != 1:
        raise RuntimeError(output)
    told: dict = json.loads(lines[0][lines[0].index("{") :])
    return told


# ---- rows ---------------------------------------------------------------------------------------


def die(path: LongPath, here: Path, env: dict[str, str], how: str) -> float:
    """Kill the rank behind the path; the seconds until the last survivor's next result."""
    if how == "launched":
        ranks = [launch(path, rank, here, env) for rank in (1, VICTIM)]
    else:
        function = ("far_members", "with_children") if how == "children" else GRACE
        ranks = [start(path, *function, rank, here, env) for rank in range(3)]
    pids = [int(await_word(rank, "ready ").split()[1]) for rank in ranks]
    time.sleep(1)
    killed = time.monotonic()
    os.kill(pids[-1], signal.SIGKILL)
    ends = [told_by(o.output, "{")["end"] for o in finish(ranks[:-1], LIMIT_S)]
    (here / "over").touch()
    finish(ranks[-1:], LIMIT_S)
    return max(ends) - killed


GRACE = ("grace_ranks", "until_one_is_missing")
WAYS = (
    ("without a secret", "plain", ""),
    ("without a secret, four children live on", "children", ""),
    ("with a secret, under `holdfast run`", "launched", "sealed led"),
    ("with a secret, nobody saw it", "plain", "sealed"),
    ("with a secret, nobody saw it, a coordinator outside", "plain", "sealed led"),
)


def deaths(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    trip = 2 * arguments.delay_ms / 1000
    print(
        f"{arguments.count} deaths a row, round trip {1e3 * trip:g} ms, `grace` "
        f"{arguments.grace:g} s\n\n| | median | longest |\n|---|---|---|"
    )
    for name, how, kind in WAYS:
        took = []
        for _ in range(arguments.count):
            with tempfile.TemporaryDirectory() as folder:
                env = {"HOLDFAST_GRACE": str(arguments.grace)}
                if "sealed" in kind:
                    env["HOLDFAST_SECRET_FILE"] = secret
                if "led" not in kind:
                    took.append(die(path, Path(folder), env, how))
                    continue
                with coordinator(path, Path(folder), env) as at:
                    env["URL"] = f"holdfast://{at}/job"
                    if how != "launched":
                        env["HOLDFAST_COORDINATOR"] = f"{at}/job"
                    took.append(die(path, Path(folder), env, how))
        print(f"| {name} | {statistics.median(took):.3f} s | {max(took):.3f} s |", flush=True)


def outage(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    """Tell what becomes of a member that cannot be reached for longer than `grace`."""
    env = {"HOLDFAST_GRACE": str(arguments.grace), "HOLDFAST_SECRET_FILE": secret}
    print(
        f"path still for {arguments.outage:g} s, `grace` {arguments.grace:g} s; seconds since it "
        "became still, or since it went on\n"
    )
    with tempfile.TemporaryDirectory() as folder, coordinator(path, Path(folder), env) as at:
        env["URL"] = f"holdfast://{at}/job"
        here = Path(folder)
        ranks = [start(path, "far_members", "comes_back", r, here, env) for r in range(3)]
        for rank in ranks:
            await_word(rank, "WARM")
        time.sleep(2)
        still = time.monotonic()
        path.set("both", still=1)
        time.sleep(arguments.outage)
        path.set("both", still=0)
        on = time.monotonic()
        time.sleep(5 + arguments.outage / 2)
        (here / "stop").touch()
        for place, outcome in enumerate(finish(ranks, LIMIT_S)):
            told = told_by(outcome.output, "TOLD")
            events = [
                f"{what} {when - still:.2f}" + (f" ({when - on:+.2f})" if when > on else "")
                for what, when in told["events"]
            ]
            where = "behind the path" if place == VICTIM else "before it"
            print(f"- a member {where}: {', '.join(events)}; wrong sums: {told['wrong']}")


def disturbed(path: LongPath, env: dict[str, str], what: str, outage_s: float) -> tuple:
    """One job with an outage (0: none) while `what`: late rounds of its members, and a newcomer."""
    with tempfile.TemporaryDirectory() as folder, coordinator(path, Path(folder), env) as at:
        here = Path(folder)
        env = {**env, "URL": f"holdfast://{at}/job"}
        ranks = [start(path, "far_members", "advances", rank, here, env) for rank in range(3)]
        for rank in ranks:
            await_word(rank, "WARM")
        time.sleep(2)
        if what != "advance":
            late = {**env, "LATE": "1", "HOLDFAST_HOST_ID": "host3"}
            ranks.append(start(path, "far_members", "advances", VICTIM, here, late))
            if what == "sync":
                await_word(ranks[-1], "WARM")
            else:
                time.sleep(0.6)  # Python starts
        begun = time.monotonic()
        if outage_s:
            path.set("both", still=1)
            time.sleep(outage_s)
            path.set("both", still=0)
        went_on = time.monotonic()
        time.sleep(6)
        (here / "stop").touch()
        told = [told_by(o.output, "TOLD") for o in finish(ranks, LIMIT_S)]
    if what != "advance":
        return told[-1]["join"], told[-1]["sync"]
    rounds = list(zip(told[0]["begun"], told[0]["took"], strict=True))[1:]
    hit = [t for b, t in rounds if b < went_on and begun < b + t]
    usual = statistics.median([t for b, t in rounds if not (b < went_on and begun < b + t)])
    return max(hit, default=usual) - usual, usual


def boundaries(arguments: argparse.Namespace, path: LongPath, secret: str) -> None:
    bar = 3 * 2 * arguments.delay_ms / 1000 + 0.3
    print(
        f"path still for {arguments.outage:g} s; late beyond that, of which {bar:.2f} s were "
        "allowed\n\n| while | median | longest |\n|---|---|---|"
    )
    env = {"HOLDFAST_SECRET_FILE": secret}
    for what in ("advance", "join", "sync"):
        column = 1 if what == "sync" else 0
        runs = range(arguments.count)
        usual = 0.0
        if what != "advance":
            usual = statistics.median(disturbed(path, env, what, 0)[column] for _ in runs)
        late = [disturbed(path, env, what, arguments.outage)[column] - usual for _ in runs]
        beyond = [each - arguments.outage for each in late]
        print(f"| {what} | {statistics.median(beyond):.2f} s | {max(beyond):.2f} s |", flush=True)


WHAT = {"deaths": deaths, "outage": outage, "boundaries": boundaries}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--count", type=int, default=7, help="of each row")
    parser.add_argument("--outage", type=float, default=30, metavar="S")
    parser.add_argument("--grace", type=float, default=15, metavar="S")
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--delay-ms", type=float, default=20, help="one way")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        secret = f"{folder}/secret"
        holdfast_command(["secret", secret])
        try:
            with LongPath() as path:
                path.set("both", delay_ms=arguments.delay_ms, mbit=arguments.mbit)
                path.set("both", queue_ms=max(50, arguments.delay_ms))
                WHAT[arguments.what](arguments, path, secret)
        except Unavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
