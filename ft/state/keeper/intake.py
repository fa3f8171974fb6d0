"""A trainer's state into a slot: what the keeper reads, and what the trainer has copied itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.keeper.capture import Tiles, pieces_of, read
from holdfast.ft.state.keeper.memory import mapped
from holdfast.ft.state.keeper.slots import Part, Slot
from holdfast.ft.state.keeper.wire import MOST_BLOB, Message


def take_in(message: Message, slot: Slot) -> Iterator[None]:
    """Fill a slot, and hash it tile by tile; yields between parts.

    Parameters
    ----------
    message : Message
        Of kind ``take``.
    slot : Slot
        What was in it is gone.

    Raises
    ------
    ConfigError
        The state is larger than what was reserved.
    ProtocolError
        The message is none.
    SystemFailure
        The trainer's memory cannot be read.
    """
    inbox = _inbox(message)
    head, pieces, copied = _segments(message, inbox, "head", "pieces", "copied")
    step, nbytes = message.number("step"), message.number("nbytes")
    if nbytes > len(slot.region.view):
        raise ConfigError(f"{nbytes} bytes; reserved: {len(slot.region.view)}")
    slot.begin(Part(step, nbytes, message.text("layout"), head))
    yield from _fill(inbox, slot.region.view, nbytes, copied)
    slot.early = [int(at) for at in pieces_of(copied, nbytes)[:, 2]]
    tiles, rows = Tiles(slot.body), pieces_of(pieces, nbytes)
    for upto in read(message.number("process"), rows, slot.region.view):
        tiles.complete(upto)
        yield
    tiles.complete(nbytes)
    slot.hashes = tiles.hashes


def _inbox(message: Message) -> memoryview:
    """Return what the trainer has copied itself."""
    if not message.descriptors:
        return memoryview(b"")
    size = message.number("inbox")
    return memoryview(mapped(os.dup(message.descriptors[0]), size))[:size]


def _segments(message: Message, inbox: memoryview, *names: str) -> list[bytes]:
    """Cut tables out of a blob, or of the inbox, by the fields that give their lengths."""
    lengths = [message.number(name) for name in names]
    whole, at = memoryview(message.blob), 0
    if "tables" in message.fields:
        whole, at = inbox, message.number("tables")
    elif sum(lengths) != len(whole):
        raise ProtocolError(f"parts of {lengths} bytes in a blob of {len(whole)}")
    if sum(lengths) > min(len(whole) - at, MOST_BLOB):
        raise ProtocolError(
            f"parts of {lengths} bytes at {at} of {len(whole)}; accepted: what is there, and at "
            f"most {MOST_BLOB}"
        )
    found = []
    for length in lengths:
        found.append(bytes(whole[at : at + length]))
        at += length
    return found


def _fill(inbox: memoryview, view: memoryview, nbytes: int, copied: bytes) -> Iterator[None]:
    """Put what the trainer has copied itself into its place."""
    rows = pieces_of(copied, nbytes)
    if len(rows) and not len(inbox):
        raise ProtocolError("what the trainer has copied itself is not there")
    for address, count, at in rows.tolist():
        # Places in the inbox begin at 1: 0 is no address.
        if address - 1 > len(inbox) or count > len(inbox) - (address - 1):
            raise ProtocolError(f"{count} bytes at {address - 1} of an inbox of {len(inbox)}")
        view[at : at + count] = inbox[address - 1 : address - 1 + count]
        yield
