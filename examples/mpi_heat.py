"""Heat in a ring, a plain mpi4py program; a rank is killed, and the others save their state.

Nothing in it is Holdfast's. Each rank has a part of the ring, sends its ends to its neighbours, and
now and then all compare how much has changed. With MPI.ERRORS_RETURN the loss of a rank is an
exception on all survivors, which names the rank; what they do then is the program's own.
Run it: holdfast run -n 4 examples/mpi_heat.py --kill 2
Under another MPI (mpiexec -n 4 python examples/mpi_heat.py --kill 2) all ranks end, and save
nothing.
"""

import argparse
import os
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()


def tell(line: str) -> None:
    """One line, whole among those of the other ranks."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def step(heat: np.ndarray) -> float:
    """Let the heat flow once; heat[0] and heat[-1] are the neighbours'. How much has changed."""
    last, following = (rank - 1) % size, (rank + 1) % size
    world.Sendrecv(heat[1:2], last, 0, heat[-1:], following, 0)
    world.Sendrecv(heat[-2:-1], following, 1, heat[:1], last, 1)
    change = 0.25 * (heat[:-2] - 2 * heat[1:-1] + heat[2:])
    heat[1:-1] += change
    return float(np.abs(change).max())


def save(heat: np.ndarray, at: int, folder: Path) -> Path:
    """Write this rank's part."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"heat-{rank}.npz"
    np.savez(path, heat=heat[1:-1], step=at)
    return path


def tell_of_loss(error: MPI.Exception, when: float, at: int, path: Path) -> None:
    """Say which rank was lost, how soon that was known, and what was saved."""
    after_ms = 1e3 * (when - float((path.parent / "killed").read_text()))
    who = re.search(r"lost rank \d+", error.Get_error_string())
    tell(
        f"rank {rank}: step {at} ended {after_ms:.1f} ms after the kill: MPI_ERR_PROC_ABORTED, "
        f"{who[0] if who else '?'}; saved to {path}"
    )


def flow(heat: np.ndarray, arguments: argparse.Namespace) -> int:
    """Run all steps. The step that was reached: fewer when a rank is lost."""
    at, change = 0, 0.0
    try:
        for at in range(arguments.steps):
            if rank == arguments.kill and at == arguments.steps // 2:
                (arguments.out / "killed").write_text(repr(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL)
            greatest = world.allreduce(change, op=MPI.MAX)
            change = step(heat)
            if rank == 0 and at % 100 == 1:
                tell(f"step {at}: the greatest change is {greatest:.6f}")
    except MPI.Exception as error:
        when = time.monotonic()
        if error.Get_error_class() != MPI.ERR_PROC_ABORTED:
            raise
        tell_of_loss(error, when, at, save(heat, at, arguments.out))
        return at
    return arguments.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill", type=int, default=-1, metavar="RANK", help="ends half-way")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--numbers", type=int, default=20000, help="of each rank")
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    world.Set_errhandler(MPI.ERRORS_RETURN)
    if rank == 0:
        tell(f"{size} ranks of an MPI program, on {MPI.Get_library_version().splitlines()[0]}")
        if arguments.kill >= 0:
            tell(f"rank {arguments.kill} will be killed at step {arguments.steps // 2}")
    heat = np.zeros(arguments.numbers + 2)
    if rank == 0:
        heat[arguments.numbers // 2] = 1000.0
    reached = flow(heat, arguments)
    if reached == arguments.steps:
        total = world.allreduce(float(heat[1:-1].sum()))
        assert abs(total - 1000.0) < 1e-6, total
        if rank == 0:
            tell(f"all {reached} steps are done; no heat was lost")
        return


main()
