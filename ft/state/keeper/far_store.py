"""The store that keepers meet at: their trainers', asked over the socket.

A keeper has no torch, and may outlive the store that its trainer met the others at; so it has none
of its own.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from holdfast.errors import HoldfastError, Timeout
from holdfast.ft.state.keeper.wire import Message

# Longer than a store of torch's takes to say that it has nothing.
_ANSWER_S = 30.0


class FarStore:
    """Has torch's methods; any one thread at a time.

    Parameters
    ----------
    ask : callable
        Sends a message to the trainer.
    """

    def __init__(self, ask: Callable[[Message], None]) -> None:
        self._ask = ask
        self.answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        """What the trainer has said; None: it is gone."""
        self._is_closed = False

    def close(self) -> None:
        """Fail what waits, and what is asked from now on: the trainer is gone."""
        self._is_closed = True
        self.answers.put(None)

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        self._call("set", key, value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        """Return the value of a key that is set."""
        return self._call("get", key).blob

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set."""
        return all(bool(self._call("check", key).fields.get("there")) for key in keys)

    def compare_set(self, key: str, expected: str, desired: str | bytes) -> bytes:
        """Set a key that is not set; return its value afterwards."""
        data = desired.encode() if isinstance(desired, str) else desired
        return self._call("compare_set", key, data, expected=expected).blob

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Wait until all keys are set."""
        for key in keys:
            self._call("wait", key, timeout_s=timeout.total_seconds())

    def _call(self, act: str, key: str, blob: bytes = b"", **fields: Any) -> Message:
        if self._is_closed:
            raise HoldfastError("the trainer is gone, and its store with it")
        self._ask(Message("store", {"act": act, "key": key, **fields}, blob))
        patience = _ANSWER_S + float(fields.get("timeout_s", 0.0))
        try:
            answer = self.answers.get(timeout=patience)
        except queue.Empty:
            raise Timeout(f"the trainer's store has not answered within {patience} s") from None
        if answer is None:
            raise HoldfastError("the trainer is gone, and its store with it")
        if error := answer.fields.get("error"):
            if answer.fields.get("timeout"):
                raise TimeoutError(error)
            raise HoldfastError(f"the trainer's store: {error}")
        return answer


def serve(store: Any, asked: Message) -> Message:
    """Do for a keeper what it asks of the trainer's store; errors go back as an answer.

    Parameters
    ----------
    store : object
        With torch's methods.
    asked : Message
        Of kind ``store``.
    """
    try:
        act, key = asked.text("act"), asked.text("key")
        if act == "set":
            store.set(key, asked.blob)
            return Message("stored")
        if act == "get":
            return Message("stored", blob=_bytes(store.get(key)))
        if act == "check":
            return Message("stored", {"there": bool(store.check([key]))})
        if act == "compare_set":
            value = store.compare_set(key, asked.text("expected"), asked.blob)
            return Message("stored", blob=_bytes(value))
        if act == "wait":
            store.wait([key], timedelta(seconds=float(asked.fields["timeout_s"])))
            return Message("stored")
        return Message("stored", {"error": f"act = {act!r}; accepted: set, get, check, ..."})
    except Exception as error:  # of any store; the keeper raises it
        is_timeout = isinstance(error, TimeoutError) or "timeout" in str(error).lower()
        return Message("stored", {"error": f"{error}", "timeout": is_timeout})


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
