"""A keeper's trainers come and go at any instant."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ft.state.keeper.keeper import Keeper
from holdfast.ft.state.keeper.making import GONE
from holdfast.ft.state.keeper.wire import Message

RESERVE = {"nbytes": 8, "data": 1, "parity": 0, "flush": "", "flush_every": 0}
# A keeper that waited for a trainer that is gone would take longer.
SOON_S = 20
MEET = {"name": "a life", "rank": 0, "size": 2, "total": 2, "late": 0, "stored": 0}


class Busy:
    """A keeper that is held up while it tells its trainer that memory is reserved."""

    def __init__(self, join: Any = None) -> None:
        self.keeper = Keeper(join, lambda: None)
        self._begun, self._goes_on = threading.Event(), threading.Event()
        self.keeper.arrive(self._hold_up)
        self.keeper.take(Message("reserve", RESERVE))
        assert self._begun.wait(SOON_S)

    def _hold_up(self, _: Message) -> None:
        self._begun.set()
        self._goes_on.wait(SOON_S)

    def serve_another(self) -> queue.SimpleQueue[Message]:
        """Have another trainer, and then go on; what that one is told."""
        said: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.keeper.leave()
        self.keeper.arrive(said.put)
        self._goes_on.set()
        self.keeper.take(Message("reserve", RESERVE))
        return said


def test_nobody_is_met_for_a_trainer_that_has_gone():
    """Its store is gone as well: whoever asked it would hear nothing for long."""
    met: queue.SimpleQueue[str] = queue.SimpleQueue()

    def join(store: Any, *_: object) -> Any:
        met.put("asks")
        store.get("where the others are")
        raise HoldfastError("there are none")

    busy = Busy(join)
    busy.keeper.take(Message("meet", {**MEET, "ranks": [0], "parity": 0, "timeout_s": 60}))
    assert busy.serve_another().get(timeout=SOON_S).kind == "reserved"
    assert met.empty()
    busy.keeper.leave()


def test_a_verdict_is_of_the_trainer_whose_snapshot_it_is():
    """What the last one has said counts, and nobody waits for what the next one does not know."""
    busy, verdicts = Busy(), []

    def wait() -> Iterator[None]:
        verdicts.extend([busy.keeper._verdict(3), busy.keeper._verdict(4)])
        yield

    busy.keeper._add(wait())
    busy.keeper.take(Message("fenced", {"step": 3, "error": "moved"}))
    assert busy.serve_another().get(timeout=SOON_S).kind == "reserved"
    assert verdicts == ["moved", GONE]
    busy.keeper.leave()


# As the bench's keepers do it: all traps are laid, and what a trapped generator returns is kept.
TRAPPED = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import kill_keeper, trap
def parts():
    yield "a part"
    return "what it has found"
def whole():
    print((yield from trapped()))
traps = trap.Trap(pathlib.Path(sys.argv[2]), "keeper", 0)
kill_keeper.lay(traps)
trapped = kill_keeper.by_parts(parts, traps, "copy")
print(*whole())
"""


def test_the_bench_of_kills_finds_every_place_where_it_kills(tmp_path: Path):
    """By name: one that has another name would leave the bench with keepers that do not come."""
    kills = Path(__file__).resolve().parents[2] / "bench/kills"
    done = subprocess.run(
        [sys.executable, "-c", TRAPPED, kills, tmp_path],
        timeout=60,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.stdout == "what it has found\na part\n"
