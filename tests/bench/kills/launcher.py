"""A launcher whose ranks are forks of a process that has imported torch, as spares would have.

It does what `holdfast run --respawn` does (a rank that a signal has ended is started again; where
none is left, all are), but a start costs milliseconds, so that a shared machine can be asked for
hundreds of kills. The store is a process of its own.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from trap import sign

from holdfast import _ends

_IMPORTS = (
    *("numpy", "torch", "torch.distributed.fsdp", "torch.nn.parallel"),
    *("torch.distributed.tensor", "holdfast", "holdfast.ft", "holdfast.compress"),
    *("holdfast.ft.state.snapshots", "holdfast.ft.state.restart"),
)


def store_of_a_life() -> tuple[int, int]:
    """Start a process with a store of torch's; return it, and its port."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        from torch.distributed import TCPStore

        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(write, str(store.port).encode())
        os.close(write)
        while True:
            signal.pause()
    os.close(write)
    with os.fdopen(read) as told:
        return process, int(told.read())


class Launcher:
    """Of as many ranks as the environment says."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=os.environ["KILLS_AT"], prefix="life-"))
        self._witness = _ends.Witness(self._folder / "witness")
        self._dies = _ends.die_with_launcher()
        self._size = int(os.environ["RANKS"])
        self._again = os.environ["CODE"] != "plain"
        self._life = 0
        self.ranks: dict[int, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Begin a life of the job, where nobody has been."""
        self._life += 1
        self._store, self._port = store_of_a_life()
        for rank in range(self._size):
            self._start(rank)

    def _start(self, rank: int) -> None:
        process = os.fork()
        if process:
            self.ranks[process] = rank
            return
        status = 1
        try:
            self._dies()
            os.environ.update(self._witness.environment)
            os.environ.update(
                RANK=str(rank),
                LOCAL_RANK=str(rank),
                WORLD_SIZE=str(self._size),
                LOCAL_WORLD_SIZE=str(self._size),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(self._port),
                HOLDFAST_STORE=(self._folder / str(self._life)).as_uri(),
                TORCHELASTIC_USE_AGENT_STORE="True",
                TORCHELASTIC_RESTART_COUNT=str(self._life),
            )
            import kill_ranks

            kill_ranks.main()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            os._exit(status)

    def run(self) -> int:
        """Watch until all have ended, or one has failed by itself."""
        while self.ranks:
            lost = []
            for rank, status in self._ended():
                print(f"launcher: rank {rank} ended with {status}", flush=True)
                if status > 0 or (status < 0 and not self._again):
                    return self._fails(status)
                lost += [rank] if status < 0 else []
            if lost and not self.ranks:
                os.kill(self._store, signal.SIGKILL)
                self._begin()
            else:
                for rank in lost:
                    self._start(rank)
        os.kill(self._store, signal.SIGKILL)
        return 0

    def _ended(self) -> list[tuple[int, int]]:
        """Wait for a rank that ends, and for those that end with it; return each, and how."""
        found, options = [], 0
        while True:
            try:
                process, how = os.waitpid(-1, options)
            except ChildProcessError:
                return found
            if process == 0:
                return found
            if process in self.ranks:
                rank = self.ranks.pop(process)
                self._witness.tell(process)
                found.append((rank, os.waitstatus_to_exitcode(how)))
                # Who is killed together is dead by then.
                time.sleep(0.1)
                options = os.WNOHANG

    def _fails(self, status: int) -> int:
        time.sleep(10.0)
        for process in (self._store, *self.ranks):
            os.kill(process, signal.SIGKILL)
        return status


def main() -> int:
    for name in _IMPORTS:
        importlib.import_module(name)
    sign(Path(os.environ["KILLS_AT"]), "launcher", os.getpid())
    return Launcher().run()


if __name__ == "__main__":
    sys.exit(main())
