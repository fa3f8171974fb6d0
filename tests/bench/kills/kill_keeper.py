"""A keeper that has traps in its phases; else `python -m holdfast._keeper`."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from trap import Trap

from holdfast import _keeper
from holdfast.ft.state.keeper import coding, flushing, keeper, making, ops, sources


def by_parts(function: Callable[..., Iterator[Any]], trap: Trap, phase: str) -> Any:
    """Wrap a generator: a trap before each of its parts, and after the last."""

    def wrapped(*arguments: Any, **named: Any) -> Generator[Any, None, Any]:
        parts = function(*arguments, **named)
        for number in itertools.count():
            trap.at(phase, f"{function.__name__} {number}")
            try:
                part = next(parts)
            except StopIteration as end:
                return end.value
            yield part

    return wrapped


def around(function: Callable[..., Any], trap: Trap, phase: str) -> Any:
    """Wrap a function: a trap before it and one after it."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        trap.at(phase, f"before {function.__name__}")
        found = function(*arguments, **named)
        trap.at(phase, f"after {function.__name__}")
        return found

    return wrapped


def lay(trap: Trap) -> None:
    """Lay all traps."""
    making.take_in = by_parts(making.take_in, trap, "copy")
    coding.Coding.encode = by_parts(coding.Coding.encode, trap, "coding")
    ops.Ops.tell_part = around(ops.Ops.tell_part, trap, "commit")
    ops.Ops.close_op = around(ops.Ops.close_op, trap, "commit")
    flushing.Flushing._written = around(flushing.Flushing._written, trap, "flush")
    flushing.Flushing._committed = around(flushing.Flushing._committed, trap, "flush")
    ops.Ops.choose = around(ops.Ops.choose, trap, "restore")
    ops.Ops.renew_guards = around(ops.Ops.renew_guards, trap, "restore")
    ops.Ops.rebuild = by_parts(ops.Ops.rebuild, trap, "restore")
    sources.Sources.fetch = by_parts(sources.Sources.fetch, trap, "restore")


def log_failures() -> None:
    """Write what a keeper tells its trainer of to the log as well."""
    told = keeper.Keeper._failed

    def failed(self: keeper.Keeper, error: BaseException) -> None:
        traceback.print_exception(error)
        told(self, error)

    keeper.Keeper._failed = failed  # type: ignore[method-assign]


def main() -> int:
    log_failures()
    _keeper._be_silent = lambda: None  # type: ignore[assignment]  # its errors go to a log
    faulthandler.register(signal.SIGUSR1)
    rank = int(sys.argv[sys.argv.index("--rank") + 1])
    trap = Trap(Path(os.environ["KILLS_AT"]), "keeper", rank)
    trap.sign()
    lay(trap)
    return _keeper.main()


if __name__ == "__main__":
    sys.exit(main())
