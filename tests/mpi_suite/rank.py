"""A rank of mpi4py's own tests: rank.py LOG OPTIONS..., in the folder of mpi4py's sources.

What the rank prints goes into LOG.RANK.log: lines of several ranks in one pipe get mixed up.
"""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    """Run mpi4py's test program with this rank's output in a file."""
    log = os.open(f"{sys.argv[1]}.{os.environ['RANK']}.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv[:] = ["test/main.py", *sys.argv[2:]]
    sys.path.insert(0, "test")
    runpy.run_path("test/main.py", run_name="__main__")


if __name__ == "__main__":
    main()
