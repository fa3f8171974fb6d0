"""A trainer's state into a slot: what the keeper reads, and what the trainer has copied itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.state.keeper.capture import Tiles, pieces_of, read
from holdfast.ft.state.keeper.memory import mapped
from holdfast.ft.state.keeper.slots import Part, Slot
from holdfast.ft.state.keeper.wire import Message


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
    head, pieces, copied = _segments(message, "head", "pieces", "copied")
    step, nbytes = message.number("step"), message.number("nbytes")
    if nbytes > len(slot.region.view):
        raise ConfigError(f"{nbytes} bytes; reserved: {len(slot.region.view)}")
    slot.begin(Part(step, nbytes, message.text("layout"), head))
    yield from _fill(message, slot.region.view, nbytes, copied)
    slot.early = [int(at) for at in pieces_of(copied, nbytes)[:, 2]]
    tiles, rows = Tiles(slot.body), pieces_of(pieces, nbytes)
    for upto in read(message.number("process"), rows, slot.region.view):
        tiles.complete(upto)
        yield
    tiles.complete(nbytes)
    slot.hashes = tiles.hashes


def _segments(message: Message, *names: str) -> list[bytes]:
    """Cut a blob into the parts that its fields give the lengths of."""
    lengths = [message.number(name) for name in names]
    if sum(lengths) != len(message.blob):
        raise ProtocolError(f"parts of {lengths} bytes in a blob of {len(message.blob)}")
    found, at = [], 0
    for length in lengths:
        found.append(message.blob[at : at + length])
        at += length
    return found


def _fill(message: Message, view: memoryview, nbytes: int, copied: bytes) -> Iterator[None]:
    """Put what the trainer has copied itself into its place."""
    rows = pieces_of(copied, nbytes)
    if not len(rows):
        return
    if not message.descriptors:
        raise ProtocolError("what the trainer has copied itself is not there")
    size = message.number("inbox")
    inbox = memoryview(mapped(os.dup(message.descriptors[0]), size))
    for address, count, at in rows.tolist():
        # Places in the inbox begin at 1: 0 is no address.
        if address - 1 > size or count > size - (address - 1):
            raise ProtocolError(f"{count} bytes at {address - 1} of an inbox of {size}")
        view[at : at + count] = inbox[address - 1 : address - 1 + count]
        yield
