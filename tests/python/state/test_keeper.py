"""A keeper's trainers come and go at any instant."""

from __future__ import annotations

import queue
import threading
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
