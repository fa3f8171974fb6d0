"""What a trainer hands its keeper at a snapshot: made once for many, and sent without waiting."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from torch import nn  # noqa: E402

from holdfast.errors import ProtocolError  # noqa: E402
from holdfast.ft.state.inbox import Inbox, Packed, message_of  # noqa: E402
from holdfast.ft.state.keeper import wire  # noqa: E402
from holdfast.ft.state.keeper.intake import take_in  # noqa: E402
from holdfast.ft.state.keeper.link import KeeperLink  # noqa: E402
from holdfast.ft.state.keeper.slots import Slot  # noqa: E402
from holdfast.ft.state.keeper.wire import Message  # noqa: E402
from holdfast.ft.state.layout.capture import Capture  # noqa: E402
from holdfast.ft.state.layout.entry import Entry  # noqa: E402
from holdfast.ft.state.layout.head import Head, layout_digest  # noqa: E402


def nested() -> dict[str, Any]:
    """Models and optimisers below other names, as a rank's own have them."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(net.parameters(), 0.1)
    return {"rank": {"0": {"model": net, "optim": optimizer}, "n": 0}, "rates": [1, 2]}


def step(state: dict[str, Any]) -> None:
    mine = state["rank"]["0"]
    mine["optim"].zero_grad()
    mine["model"](torch.randn(5, 3)).square().mean().backward()
    mine["optim"].step()
    state["rank"]["n"] += 1


def body_of(capture: Capture) -> bytes:
    body = bytearray(capture.body_bytes)
    capture.copy(memoryview(body))
    return bytes(body)


def received(packed: Packed, head: Head, slot: Slot) -> bytes:
    """What a keeper has of it; this process reads its own memory."""
    message = message_of(packed, head)
    for _ in take_in(message, slot):
        pass
    assert slot.part is not None
    assert Head.from_bytes(slot.part.head) == head
    assert slot.part.layout == layout_digest([head])
    return bytes(slot.body)


@pytest.mark.parametrize("reads", [True, False])
def test_a_keeper_has_each_of_many_snapshots_from_one_inbox(reads: bool):
    state = nested()
    step(state)
    capture, inbox = Capture(state, 0, 1), Inbox()
    slot, regions = Slot("a test", 1 << 16, 0), set()
    for number in range(1, 5):
        head = capture.head("job", number, 1)
        packed = inbox.pack(capture, head, reads)
        # Buffers are copied at once.
        wanted = body_of(capture)
        state["rank"]["0"]["model"][1].running_mean.add_(1)
        assert received(packed, head, slot) == wanted
        assert packed.problem() == ""
        regions.add(packed.inbox.descriptor)
        inbox.is_read = True
        step(state)
        assert bool(packed.moved()) == reads
        capture = capture.renewed(state)
    assert len(regions) == 1
    # What a keeper has not read yet is left as it is.
    one = inbox.pack(capture, capture.head("job", 6, 1), reads)
    first, kept = one.inbox, bytes(one.inbox.view)
    other = os.dup(first.descriptor)
    inbox.pack(capture, capture.head("job", 7, 1), reads)
    assert os.pread(other, len(kept), 0) == kept
    os.close(other)
    inbox.forget()


def test_what_does_not_change_is_neither_walked_nor_described_again(
    monkeypatch: pytest.MonkeyPatch,
):
    state = nested()
    step(state)
    last = Capture(state, 0, 1)
    last.told(last.head("job", 1, 1))

    def refuse(_: Entry) -> list[object]:
        raise AssertionError("described again")

    step(state)
    new, anew = last.renewed(state), Capture(state, 0, 1)
    assert new._steady is last._steady
    assert body_of(new) == body_of(anew)
    head = new.head("job", 2, 1)
    assert head == anew.head("job", 2, 1)
    wanted = anew.told(head)
    with monkeypatch.context() as patched:
        patched.setattr(Entry, "to_list", refuse)
        assert new.told(head) == wanted
        with pytest.raises(AssertionError, match="described again"):
            Capture(state, 0, 1).told(head)
    # Another model, another key, another kind of container: all of it is walked.
    others: list[Any] = [
        {"rank": {**state["rank"], "0": nested()["rank"]["0"]}, "rates": [1, 2]},
        {"rank": {**state["rank"], "m": 1}, "rates": [1, 2]},
        {"rank": [1], "rates": [1, 2]},
        {**state, "rates": [nested()["rank"]["0"]["model"]]},
    ]
    for other in others:
        after = new.renewed(other)
        assert after._steady is not new._steady
        assert body_of(after) == body_of(Capture(other, 0, 1))


def test_tables_that_are_not_in_the_inbox_are_refused():
    state = nested()
    capture, inbox = Capture(state, 0, 1), Inbox()
    head = capture.head("job", 1, 1)
    message = message_of(inbox.pack(capture, head, False), head)
    slot = Slot("a test", 1 << 16, 0)
    size = message.fields["inbox"]
    for wrong in ({"tables": size}, {"head": size}, {"copied": 1 << 62}, {"tables": 1 << 62}):
        fields = {**message.fields, **wrong}
        with pytest.raises(ProtocolError, match="accepted: what is there"):
            next(take_in(Message("take", fields, b"", message.descriptors), slot))
    with pytest.raises(ProtocolError, match="accepted: what is there"):
        next(take_in(Message("take", message.fields), slot))
    inbox.forget()


def test_messages_are_sent_at_once_and_in_order_where_nobody_reads():
    ours, theirs = socket.socketpair()
    link = KeeperLink(ours)
    link.send(Message("first"))
    theirs.setblocking(False)
    # By the thread that sends, so that it is there even if it is killed now.
    assert wire.receive(theirs) == Message("first")
    theirs.setblocking(True)
    files = [os.memfd_create(f"{number}") for number in range(3)]
    blob = np.random.default_rng(1).bytes(700_000)
    for number, file in enumerate(files):
        os.write(file, bytes([number]))
        link.send(Message("long", {"n": number}, blob, (file,)))
        link.send(Message("short", {"n": number}))
        os.close(file)
    for number in range(3):
        found = wire.receive(theirs)
        assert found is not None
        assert (found.kind, found.fields, found.blob) == ("long", {"n": number}, blob)
        (file,) = found.descriptors
        assert os.pread(file, 9, 0) == bytes([number])
        os.close(file)
        assert wire.receive(theirs) == Message("short", {"n": number})
    theirs.close()
    # Whoever is gone is noticed by who waits, not by who sends.
    link.send(Message("late"))
    link.close()
