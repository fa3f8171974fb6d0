"""What a sync says to the other ranks: collectives and messages of a group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

import numpy as np

from holdfast import _core
from holdfast.errors import ConfigError, HoldfastError, ProtocolError, Timeout

# Tag of its messages; a user's are below.
TAG = 2**31 - 1
# What a rank may say of its state's structure.
_MAX_TEXT = 1 << 26
_LOOK_S = 1.0


class Messages(Protocol):
    """The collectives that a sync needs; a group's, or a torch process group's."""

    @property
    def rank(self) -> int:
        """Own rank."""

    def gather(self, mine: bytes) -> dict[int, bytes]:
        """Return what every rank gives; all give the same number of bytes."""

    def send(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        """Start to send bytes of `owner`; the result waits, and raises what went wrong."""

    def recv(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        """Start to receive bytes; as with send()."""


class GroupMessages:
    """Those of a :class:`holdfast.Group`, marked as part of a newcomer's arrival.

    Parameters
    ----------
    native : _core.Communicator
        The group.
    """

    def __init__(self, native: _core.Communicator) -> None:
        self._native = native
        self.rank = native.rank

    def gather(self, mine: bytes) -> dict[int, bytes]:
        """Return what every rank that is there gives; all give the same number of bytes."""
        size = self._native.size
        own = np.frombuffer(mine, np.uint8).copy()
        all_of_them = np.zeros(size * len(own), np.uint8)
        blocks = [(all_of_them.ctypes.data + r * len(own), len(own)) for r in range(size)]
        call = _core.Call(
            "all_gather",
            "u8",
            "sum",
            [(own.ctypes.data, len(own))],
            blocks,
            at_entrance=True,
            on_hole="zero",  # who is there is what it asks
        )
        outcome = self._native.run(call).outcome
        rows = all_of_them.reshape(size, len(own))
        return {rank: rows[rank].tobytes() for rank in outcome[1]}

    def send(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        """Start to send bytes of `owner`; the result waits, and raises what went wrong."""
        return self._message("send", peer, (address, size), owner)

    def recv(self, peer: int, address: int, size: int, owner: object) -> Callable[[], object]:
        """Start to receive bytes; as with send()."""
        return self._message("recv", peer, (address, size), owner)

    def _message(
        self, kind: str, peer: int, place: tuple[int, int], owner: object
    ) -> Callable[[], object]:
        block = [place]
        empty: list[tuple[int, int]] = []
        call = _core.Call(
            kind,
            "u8",
            "sum",
            block if kind == "send" else empty,
            block if kind == "recv" else empty,
            peer=peer,
            tag=TAG,
            at_entrance=True,
        )
        work = self._native.start(call, owner)

        def wait() -> None:
            while not work.done():
                # Its own time limit ends it; this one lets signals through.
                with contextlib.suppress(Timeout):
                    work.wait(_LOOK_S)
            work.wait(0.0)

        return wait


def texts(messages: Messages, mine: bytes) -> dict[int, bytes]:
    """Return what every rank gives, of any length.

    Parameters
    ----------
    messages : Messages
        Of the group.
    mine : bytes
        What this rank gives.

    Returns
    -------
    dict of int to bytes
        By rank, those that are there.

    Raises
    ------
    ProtocolError
        For a text that is too long, naming its rank; on all of them.
    """
    lengths = messages.gather(len(mine).to_bytes(8, "little"))
    longest, rank = max((int.from_bytes(n, "little"), r) for r, n in lengths.items())
    if longest > _MAX_TEXT:
        raise ProtocolError(
            f"sync: rank {rank} describes its state in {longest} bytes; accepted: {_MAX_TEXT}; "
            "give fewer, larger tensors"
        )
    padded = messages.gather(mine.ljust(max(1, longest), b"\0"))
    return {
        rank: text[: int.from_bytes(lengths[rank], "little")]
        for rank, text in padded.items()
        if rank in lengths
    }


def descriptions(messages: Messages, label: str, describe: Callable[[], bytes]) -> dict[int, bytes]:
    """Return what every rank says of its state; where one refuses its own, all of them raise.

    Parameters
    ----------
    messages : Messages
        Of the group.
    label : str
        Names the group in errors.
    describe : callable
        Gives this rank's description, or raises why there is none.

    Returns
    -------
    dict of int to bytes
        By rank, those that are there.

    Raises
    ------
    HoldfastError
        What `describe` raised; a ConfigError that quotes it on the other ranks, which would
        otherwise wait for this one.
    """
    refusal: HoldfastError | None = None
    try:
        mine = describe()
    except HoldfastError as error:
        refusal, mine = error, str(error).encode()
    told = texts(messages, bytes([refusal is not None]) + mine)
    if refusal is not None:
        raise refusal
    for rank, text in sorted(told.items()):
        if text[0]:
            raise ConfigError(
                f"sync of {label}: rank {rank} refuses its state: {text[1:].decode()}"
            )
    return {rank: text[1:] for rank, text in told.items()}
