"""A keeper's trainers come and go at any instant."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ft.state.keeper.keeper import Keeper
from holdfast.ft.state.keeper.wire import Message

RESERVE = {"nbytes": 8, "data": 1, "parity": 0, "flush": "", "flush_every": 0}
MEET = {"name": "a life", "rank": 0, "size": 2, "total": 2, "late": 0, "stored": 0}


def test_nobody_is_met_for_a_trainer_that_has_gone():
    """Its store is gone as well: whoever asked it would hear nothing for long."""
    met: queue.SimpleQueue[str] = queue.SimpleQueue()

    def join(store: Any, *_: object) -> Any:
        met.put("asks")
        store.get("where the others are")
        raise HoldfastError("there are none")

    keeper = Keeper(join, lambda: None)
    begun, goes_on = threading.Event(), threading.Event()

    def hold_up(_: Message) -> None:
        begun.set()
        goes_on.wait(20)

    keeper.arrive(hold_up)
    keeper.take(Message("reserve", RESERVE))
    assert begun.wait(20)
    keeper.take(Message("meet", {**MEET, "ranks": [0], "parity": 0, "timeout_s": 60}))
    keeper.leave()
    goes_on.set()

    said: queue.SimpleQueue[Message] = queue.SimpleQueue()
    keeper.arrive(said.put)
    keeper.take(Message("reserve", RESERVE))
    assert said.get(timeout=20).kind == "reserved"
    assert met.empty()
    keeper.leave()


def test_the_bench_of_kills_finds_every_place_where_it_kills(tmp_path: Path):
    """By name: one that has another name would leave the bench with keepers that do not come."""
    kills = Path(__file__).resolve().parents[2] / "bench/kills"
    lay = "import sys, pathlib, trap, kill_keeper; "
    lay += "kill_keeper.lay(trap.Trap(pathlib.Path(sys.argv[1]), 'keeper', 0)); print('LAID')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(kills)!r}); {lay}", tmp_path],
        timeout=60,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.stdout == "LAID\n"
