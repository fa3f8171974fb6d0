"""``python -m holdfast._keeper``: the process that holds a rank's snapshots; `Snapshots` starts it.

Its environment is that of the trainer that needed it first.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys

from holdfast.errors import HoldfastError
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.keeper.serve import serve
from holdfast.options import Options

# A trainer that is stopped by ctrl-C, or with its whole group, leaves its keeper.
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


def _be_silent() -> None:
    """Say no more: what is said until now is kept in memory, for the trainer that waits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


def main() -> int:
    """Run the process to its end.

    Returns
    -------
    int
        0; 1 when it could not begin.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--job", required=True)
    parser.add_argument("--host", default="")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--keep-for", type=float, default=1800.0, metavar="S")
    arguments = parser.parse_args()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        # Pages and records are the trainer's, and so is what a loss means: among keepers it is no
        # error, and none of the group's end.
        options = dataclasses.replace(
            Options.from_env(),
            http="",
            flight_dir="",
            coordinator="",
            on_hole="zero",
            on_peer_loss="continue",
            fault_tolerance=True,
        )
        address = Address(arguments.job, arguments.host, arguments.rank)
        serve(address, options, arguments.keep_for, _be_silent)
    except HoldfastError as error:
        print(f"holdfast keeper: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
