"""What it takes to join a group far away: open, with the shared secret, and by a token.

    python tests/bench/secured_join.py --round-trip-ms 150 --joins 5

The coordinator and a member are in one network namespace, the joiner is in another; between them is
an emulated path (tests/python/support/emulated_path.py). Prints Markdown: the time of
`holdfast.join()` until the newcomer is a member, in seconds and in round trips; the least of all
joins, and their median. Needs root, `ip` and /dev/net/tun; says what is missing, and ends with
status 2, where they are not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_network import Unavailable
from emulated_path import LongPath
from ranks import finish, kill, start_rank

LIMIT_S = 120.0
PORT = 29400
LOCKS = ("open", "secret", "token")


def member() -> None:
    """Be there, at a step boundary all the time, until a file says to leave."""
    import holdfast

    with holdfast.join(os.environ["URL"]) as group:
        Path("there").touch()
        while not Path("leave").exists():
            group.advance()
            time.sleep(0.001)


def joiner() -> None:
    """Join, and tell how long that took. What is imported and made before is not counted."""
    import holdfast

    begun = time.monotonic()
    group = holdfast.join(os.environ["URL"])
    took = time.monotonic() - begun
    assert group.size == 2, group.size
    print("TOLD", took, flush=True)
    group.leave()


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast.cli", *words]


def _token(secret: Path) -> Path:
    made = subprocess.run(
        _command("token", "new", "--run", "far", "--secret-file", str(secret)),
        check=True,
        capture_output=True,
        text=True,
    )
    path = secret.with_suffix(f".{time.monotonic_ns()}")
    path.touch(mode=0o600)
    path.write_text(made.stdout)
    return path


def _env(lock: str, secret: Path, path: LongPath, place: int) -> dict[str, str]:
    env = {
        "URL": f"holdfast://{path.address(0)}:{PORT}/far",
        "HOLDFAST_ADDRESS": path.address(place),
        "HOLDFAST_HOST_ID": f"place-{place}",
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_CONNECT_TIMEOUT": "60",
        # Where ranks find this file.
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    if lock == "secret":
        env["HOLDFAST_SECRET_FILE"] = str(secret)
    if lock == "token":
        env["HOLDFAST_TOKEN_FILE"] = str(_token(secret))
    return env


def joins(path: LongPath, lock: str, count: int, here: Path) -> list[float]:
    """How long each of so many joins took, in seconds."""
    secret = here / "secret"
    subprocess.run(_command("secret", str(secret)), check=True, capture_output=True)
    words = ["coordinator", "--port", str(PORT), "--address", path.address(0), "--grace", "0"]
    words += ["--insecure"] if lock == "open" else ["--secret-file", str(secret)]
    coordinator = subprocess.Popen(
        [*path.inside(0), *_command(*words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert coordinator.stdout is not None
    assert "listens" in coordinator.stdout.readline()
    env = _env(lock, secret, path, 0)
    there = start_rank("secured_join", "member", 0, 1, here, env, path.inside(0))
    until = time.monotonic() + LIMIT_S
    while not (here / "there").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    took = []
    for _ in range(count):
        env = _env(lock, secret, path, 1)
        newcomer = start_rank("secured_join", "joiner", 0, 1, here, env, path.inside(1))
        (outcome,) = finish([newcomer], LIMIT_S)
        assert outcome.status == 0, outcome.output
        took.append(float(outcome.output.split("TOLD ")[1].split()[0]))
    (here / "leave").touch()
    finish([there], LIMIT_S)
    kill(coordinator)
    coordinator.wait()
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--round-trip-ms", type=float, default=150)
    parser.add_argument("--joins", type=int, default=5)
    arguments = parser.parse_args()
    round_trip = arguments.round_trip_ms / 1000
    try:
        with LongPath() as path, tempfile.TemporaryDirectory() as folder:
            path.set("both", mbit=1000, delay_ms=arguments.round_trip_ms / 2)
            print("| lock | least s | round trips | median s | round trips |")
            print("|---|---|---|---|---|")
            for lock in LOCKS:
                here = Path(folder) / lock
                here.mkdir()
                took = joins(path, lock, arguments.joins, here)
                cells = [
                    f"{value:.3f} | {value / round_trip:.1f}"
                    for value in (min(took), statistics.median(took))
                ]
                print(f"| {lock} | {' | '.join(cells)} |", flush=True)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
