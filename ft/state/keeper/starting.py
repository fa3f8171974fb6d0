"""Starting a rank's keeper, and what one says that could not begin."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from holdfast.errors import SystemFailure
from holdfast.ft.state.keeper.address import Address

# From a start that was in vain to the next one, twice as long each time.
_FIRST_AGAIN_S = 0.1
# Bytes of what one that could not begin has said.
_MOST_SAID = 2000


def start(address: Address, keep_for_s: float, errors: int) -> subprocess.Popen[bytes]:
    """Start a keeper, in a session of its own; one that finds one there that answers ends at once.

    Parameters
    ----------
    address : Address
        The keeper's.
    keep_for_s : float
        Seconds for which it stays without a trainer.
    errors : int
        Descriptor of a file for what it has to say of itself.
    """
    command = [sys.executable, "-m", "holdfast._keeper", "--job", address.job]
    place = ["--host", address.host, "--rank", str(address.rank), "--keep-for", str(keep_for_s)]
    process = subprocess.Popen(
        [*command, *place],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,
        cwd="/",
    )
    # Waits for its end, so that none is left as a zombie while this process lives.
    threading.Thread(target=process.wait, daemon=True).start()
    return process


class Starter:
    """Starts a keeper where there is none, and again while that is of use.

    Parameters
    ----------
    address : Address
        The keeper's.
    keep_for_s : float
        Seconds for which it stays without a trainer.
    within_s : float
        Seconds within which it is to be there; another one is started after a third of them.
    """

    def __init__(self, address: Address, keep_for_s: float, within_s: float) -> None:
        self._address, self._keep_for_s = address, keep_for_s
        self._process: subprocess.Popen[bytes] | None = None
        self._at, self._again_s, self._longest_s = 0.0, _FIRST_AGAIN_S, within_s / 3
        # It goes with those that have it; a keeper has next to nothing to say.
        self._errors = os.memfd_create("errors of a keeper")

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._errors)

    def go(self, now: float) -> None:
        """Nobody answers at the address, at a time in seconds: start one, unless one is to come.

        Raises
        ------
        SystemFailure
            What was started could not begin.
        """
        waited = now - self._at
        if self._process is not None:
            status = self._process.returncode
            if status is not None and status > 0:
                raise SystemFailure(
                    f"the keeper of job {self._address.job!r}, rank {self._address.rank}, ended "
                    f"with {status} before it answered: {self.said or 'it has said nothing'}"
                )
            # It was killed, or found one that answered, which has gone since.
            is_in_vain = status is not None and waited > self._again_s
            if not is_in_vain and waited <= self._longest_s:
                return
            self._again_s = min(2 * self._again_s, self._longest_s)
        self._process = start(self._address, self._keep_for_s, self._errors)
        self._at = now

    @property
    def said(self) -> str:
        """The end of what those that were started have said."""
        size = os.fstat(self._errors).st_size
        told = os.pread(self._errors, _MOST_SAID, max(0, size - _MOST_SAID))
        return told.decode(errors="replace").strip()
