"""docs/evidence/wheels.md: what was installed where, and what it did."""

from __future__ import annotations

import datetime
import functools
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build" / "wheels-rows.json"


@dataclass(frozen=True)
class Row:
    """A wheel beside one torch. Cells are what the checks returned, or what went wrong."""

    python: str
    torch: str
    symbols: str = ""
    install: str = ""
    first: str = ""
    load: str = ""
    info: str = ""
    ddp_kill: str = ""
    c: str = ""
    refused_torch: str = ""
    refused_python: str = ""


TITLES = {
    "python": "Python",
    "torch": "torch",
    "symbols": "module fits",
    "install": "pip install, s",
    "first": "first all_reduce, s",
    "load": "load",
    "info": "info",
    "ddp_kill": "DDP with a kill",
    "c": "C example",
    "refused_torch": "torch refused",
    "refused_python": "Python refused",
}

HEAD = """# Wheels, installed and used

Made by `make wheels-test` on {date}, of commit {commit}.
The machine: {machine}. Every row is an empty virtual environment in which
`pip install torch==...` and then `pip install holdfast-*.whl` were run, without a compiler in
`PATH`.

- *Module fits*: every symbol that the wheel's module for this torch takes from it is exported by
  this torch's libraries, and both use the same table of pybind11's; looked up by `nm`.
- *pip install* takes NumPy and xxhash along, from the index. *First all_reduce* is two ranks from
  the shell to their end, with torch's import. Both together must take less than {limit} seconds,
  where the machine is free for it: *load* is how many programs wanted a core at that time. In
  parentheses stand the seconds of processors.
- *Info*: `holdfast info` names the modules of the wheel and the one that was chosen, and no other
  is loaded.
- *DDP with a kill*: three ranks train, one is ended by SIGKILL in step 5 of 12, and the others end
  the training with the same bits.
- *C example*: `examples/c/all_reduce.c`, compiled with `holdfast info --cflags --libs`.
- *Torch refused*: with the module for this torch taken away, the error names the torches that fit,
  this one, and the line that builds from source. *Python refused*: another Python's pip refuses the
  wheel.
"""

VERDICTS = """
## The wheels

*auditwheel*: the tag that the wheel's symbols ask for. A wheel for aarch64 is used by an emulator,
without torch: `holdfast info`, and an all_reduce of two ranks (`tests/wheels/under_qemu.sh`).

| wheel | MB | auditwheel | used |
|---|---|---|---|
"""


def machine() -> str:
    """The machine in words, without its name."""
    system = platform.freedesktop_os_release()
    name = f"{system['NAME'].removesuffix(' GNU/Linux')} {system.get('VERSION_ID', '')}".strip()
    return f"{os.cpu_count()} cores, {platform.machine().replace('_', '-')}, {name}"


@functools.cache
def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.strip()


def kept() -> dict[str, Row]:
    """Rows of earlier runs on the same commit, by Python and torch."""
    if not KEPT.exists():
        return {}
    told = json.loads(KEPT.read_text())
    if told["commit"] != commit():
        return {}
    return {key: Row(**cells) for key, cells in told["rows"].items()}


def keep(rows: dict[str, Row]) -> None:
    told = {"commit": commit(), "rows": {key: asdict(row) for key, row in rows.items()}}
    KEPT.write_text(json.dumps(told, indent=1))


def table(rows: list[Row]) -> str:
    names = [field.name for field in fields(Row)]
    lines = ["| " + " | ".join(TITLES[name] for name in names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        cells = (getattr(row, name).replace("\n", " ").replace("|", "/") for name in names)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def text(rows: list[Row], wheels: list[tuple[str, float, str, str]], limit: float) -> str:
    """The whole page.

    Parameters
    ----------
    rows : list of Row
        One for each wheel and torch.
    wheels : list of (name, megabytes, verdict, how it was used)
        All wheels that were built, those for other processors, too.
    limit : float
        Seconds that installation and first all_reduce may take.
    """
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    head = HEAD.format(date=date, commit=commit(), machine=machine(), limit=f"{limit:.0f}")
    lines = "".join(
        f"| `{name}` | {size:.1f} | {verdict} | {used} |\n" for name, size, verdict, used in wheels
    )
    return f"{head}\n{table(rows)}{VERDICTS}{lines}"
