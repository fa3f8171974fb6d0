"""Several coordinators and one etcd: one leads, the others stand by."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from holdfast import _core
from holdfast.errors import HoldfastError, ProtocolError

# Between two looks at a signal, and after an error.
_LOOK_S = 0.2
# How long a coordinator that has just been started asks an etcd that does not answer.
_FIRST_ANSWER_S = 10.0


class _Teller:
    """Says how it stands, whenever that changes."""

    def __init__(self) -> None:
        self._said = ""

    def say(self, text: str) -> None:
        if text != self._said:
            print(f"holdfast coordinator: {text}", file=sys.stderr, flush=True)
        self._said = text


def run(
    lease: _core.EtcdLease, stop: threading.Event, serve: Callable[[_core.EtcdLease], None]
) -> int:
    """Lead whenever nobody else does, until `stop` is set.

    Parameters
    ----------
    lease : EtcdLease
        That nobody has acquired; closed at the end.
    stop : threading.Event
        Set by a signal.
    serve : callable
        Coordinates for as long as the lease leads.

    Returns
    -------
    int
        0.

    Raises
    ------
    HoldfastError
        No etcd answers, at the start. Later the coordinator waits for it.
    """
    teller = _Teller()
    give_up = time.monotonic() + _FIRST_ANSWER_S
    answered = False
    try:
        while not stop.is_set():
            try:
                leads = lease.acquire(_LOOK_S)
            except HoldfastError as error:
                if not answered and (isinstance(error, ProtocolError) or _is_past(give_up)):
                    raise HoldfastError(f"--etcd: {error}{_tried(error)}") from None
                teller.say(f"stands by; ops go on, and changes of view wait for etcd: {error}")
                stop.wait(_LOOK_S)
                continue
            answered = True
            if not leads:
                teller.say(f"stands by; {lease.leader or 'nobody'} leads")
                continue
            teller.say(f"leads, with term {lease.term}")
            serve(lease)
            if not stop.is_set():
                teller.say(f"leads no more: {lease.why_lost}")
    finally:
        lease.close()
    return 0


def _is_past(instant: float) -> bool:
    return time.monotonic() > instant


def _tried(error: HoldfastError) -> str:
    if isinstance(error, ProtocolError):
        return ""
    return (
        f"; asked again and again for {_FIRST_ANSWER_S:.0f} s. Accepted: the URLs at which the "
        "members of an etcd listen for clients"
    )
