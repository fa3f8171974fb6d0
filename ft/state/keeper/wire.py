"""Messages between a trainer and its keeper: a kind, fields, a blob, and descriptors.

On the socket: magic, lengths of the JSON and of the blob, then both. Parsed in full before a field
is used; what is too long is refused before a byte of it is read.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import ProtocolError, Timeout

_HEADER = struct.Struct("<4sII")
_MAGIC = b"HFK1"
# Fields are small; tables of pieces and heads of images go into the blob.
MOST_FIELDS = 1 << 20
MOST_BLOB = 1 << 30
_MOST_DESCRIPTORS = 4


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Parameters
    ----------
    kind : str
        What it is about.
    fields : dict
        JSON.
    blob : bytes
        Bytes that the kind gives a meaning.
    descriptors : tuple of int
        Open files, owned by whoever received them.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    blob: bytes = b""
    descriptors: tuple[int, ...] = ()

    def number(self, name: str, most: int = 2**63 - 1) -> int:
        """Return a field that is a whole number from 0 to `most`.

        Parameters
        ----------
        name : str
            Of the field.
        most : int
            The largest that is accepted.

        Raises
        ------
        ProtocolError
            It is missing, or something else.
        """
        value = self.fields.get(name)
        if type(value) is not int or not 0 <= value <= most:
            raise ProtocolError(
                f"message {self.kind!r}: {name} = {value!r}; accepted: a whole number from 0 to "
                f"{most}"
            )
        return value

    def text(self, name: str) -> str:
        """Return a field that is a text.

        Parameters
        ----------
        name : str
            Of the field.

        Raises
        ------
        ProtocolError
            It is missing, or something else.
        """
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise ProtocolError(f"message {self.kind!r}: {name} = {value!r}; accepted: a text")
        return value


def encode(message: Message) -> bytes:
    """Return a message's bytes, but for its descriptors."""
    text = json.dumps([message.kind, message.fields], separators=(",", ":")).encode()
    if len(text) > MOST_FIELDS or len(message.blob) > MOST_BLOB:
        raise ProtocolError(
            f"message {message.kind!r}: {len(text)} bytes of fields and {len(message.blob)} of a "
            f"blob; accepted: {MOST_FIELDS} and {MOST_BLOB}"
        )
    return _HEADER.pack(_MAGIC, len(text), len(message.blob)) + text + message.blob


def lengths(header: bytes) -> tuple[int, int]:
    """Return how many bytes of fields and of a blob follow a header.

    Raises
    ------
    ProtocolError
        It is no header of ours, or says more than is accepted.
    """
    if len(header) != _HEADER.size:
        raise ProtocolError(f"a header of {len(header)} bytes; accepted: {_HEADER.size}")
    magic, text, blob = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise ProtocolError(f"a message begins with {magic!r}; accepted: {_MAGIC!r}")
    if text > MOST_FIELDS or blob > MOST_BLOB:
        raise ProtocolError(
            f"a message of {text} bytes of fields and {blob} of a blob; accepted: {MOST_FIELDS} "
            f"and {MOST_BLOB}"
        )
    return int(text), int(blob)


def parse(text: bytes, blob: bytes, descriptors: Sequence[int] = ()) -> Message:
    """Return a message from its parts.

    Raises
    ------
    ProtocolError
        The text is not a kind and fields.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message whose fields are no JSON: {error}") from None
    if not (
        isinstance(found, list)
        and len(found) == 2
        and isinstance(found[0], str)
        and isinstance(found[1], dict)
    ):
        raise ProtocolError("a message that is not a kind and its fields")
    return Message(found[0], found[1], blob, tuple(descriptors))


def send(connection: socket.socket, message: Message) -> None:
    """Send a message; its descriptors stay open here.

    Raises
    ------
    ProtocolError
        The other end is gone, or the message is too long.
    """
    data = memoryview(encode(message))
    try:
        sent = socket.send_fds(connection, [data], list(message.descriptors))
        connection.sendall(data[sent:])
    except TimeoutError:
        raise Timeout(f"message {message.kind!r}: the other end reads nothing") from None
    except OSError as error:
        raise ProtocolError(f"message {message.kind!r}: the other end is gone ({error})") from None


def send_now(connection: socket.socket, message: Message) -> memoryview | None:
    """Send as much of a message as the system takes without waiting.

    Parameters
    ----------
    connection : socket.socket
        Without a timeout.
    message : Message
        Its descriptors stay open here.

    Returns
    -------
    memoryview, optional
        What is left to be sent, without the descriptors; None: all, with them.

    Raises
    ------
    ProtocolError
        The message is too long.
    OSError
        The other end is gone.
    """
    data = memoryview(encode(message))
    files = array.array("i", message.descriptors)
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)] if message.descriptors else []
    try:
        return data[connection.sendmsg([data], passed, socket.MSG_DONTWAIT) :]
    except BlockingIOError:
        return None


def receive(connection: socket.socket) -> Message | None:
    """Wait for a message, for as long as the socket's timeout says; None: the other end has ended.

    Raises
    ------
    Timeout
        None came.
    ProtocolError
        What came is none.
    """
    descriptors: list[int] = []
    try:
        header = _exactly(connection, _HEADER.size, descriptors)
        if not header:
            return None
        text, blob = lengths(header)
        return parse(
            _exactly(connection, text, descriptors),
            _exactly(connection, blob, descriptors),
            descriptors,
        )
    except TimeoutError:
        close_all(descriptors)
        raise Timeout("no message came in time") from None
    except ConnectionError:
        close_all(descriptors)
        return None
    except ProtocolError:
        close_all(descriptors)
        raise


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that came with a message."""
    for number in descriptors:
        socket.close(number)


def _exactly(connection: socket.socket, count: int, descriptors: list[int]) -> bytes:
    """Return so many bytes; none at all where the other end has ended before the first one."""
    found = bytearray(count)
    view, at = memoryview(found), 0
    while at < count:
        got, ancillary, _, _ = connection.recvmsg_into(
            [view[at:]], socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
        )
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                descriptors += numbers.tolist()
        if got == 0:
            if at == 0:
                return b""
            raise ProtocolError(f"a message that ends after {at} of {count} bytes")
        at += got
    return bytes(found)
