"""torch's store, kept by whoever outlives the ranks: where the lost ones find the others again.

``python -m holdfast._supervise.torch_store HOST PORT`` keeps one until it is killed, with its
supervisor at the latest, so that this one need not import torch.
"""

from __future__ import annotations

import signal
import sys
from typing import Any


def keep(host: str, port: int) -> Any:
    """Keep a store of torch's, where torch is installed; else None.

    Parameters
    ----------
    host : str
        By which this process calls it.
    port : int
        0 lets the system choose.

    Raises
    ------
    RuntimeError
        Nobody can listen there.
    """
    try:
        from torch.distributed import TCPStore
    except ImportError:
        return None
    return TCPStore(host, port, is_master=True, wait_for_workers=False)


def main() -> int:
    """Keep one.

    Returns
    -------
    int
        1: nobody can listen there.
    """
    host, port = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        store = keep(host, port)
    except RuntimeError as error:
        said = str(error).partition("\n")[0]
        print(f"holdfast respawn: torch's store, {host}:{port}: {said}", file=sys.stderr)
        return 1
    while store is not None:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
