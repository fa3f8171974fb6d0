"""What a wheel must do in an environment with one torch; each check returns a cell of the table."""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path

import symbols
from environment import Clock, Environment, Failed, Time

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD_FROM_SOURCE = "pip install --force-reinstall --no-deps --no-binary=holdfast holdfast"

# Everything that a user types until the first result.
FIRST = """
import torch, torch.distributed as dist
dist.init_process_group("holdfast")
ones = torch.ones(1000)
dist.all_reduce(ones)
assert ones.tolist() == [2.0] * 1000
"""
REFUSED = """
import torch, torch.distributed as dist
try:
    dist.init_process_group("holdfast", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as error:
    print("REFUSED", error)
"""
LOADED = """
import sys, torch
from holdfast.torch import native
native()
print("LOADED", *sorted(name for name in sys.modules if name.startswith("holdfast._c10d_")))
"""


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def module_of(env: Environment, torch: str) -> Path:
    name = f"_c10d_{minor_of(torch).replace('.', '_')}"
    found = sorted(env.package.glob(f"{name}.*.so"))
    if len(found) != 1:
        raise Failed(f"{len(found)} modules {name} in the wheel")
    return found[0]


def fits(env: Environment, torch: str) -> str:
    """All that the module takes is in this torch's libraries; no library looks outside."""
    fit = symbols.look(module_of(env, torch), env.torch_libraries)
    problems = [*fit.problems, *symbols.misplaced(env.package)]
    if problems:
        raise Failed("; ".join(problems[:5]))
    return f"{fit.symbols} symbols"


def first_all_reduce(env: Environment) -> Time:
    """How long two ranks take, from the shell to the result and the end."""
    program = env.folder / "first.py"
    program.write_text(FIRST)
    clock = Clock()
    env.run("holdfast", "run", "-n", "2", program)
    return clock.read()


def info(env: Environment, torch: str, minors: list[str]) -> str:
    """``holdfast info`` says what is here and what was chosen, and nothing else is loaded."""
    told = env.run("holdfast", "info")
    wanted = f"by the module for {minor_of(torch)}; here are {', '.join(minors)})"
    if wanted not in told:
        raise Failed(f"holdfast info does not say {wanted!r}: {told[:800]}")
    loaded = env.run(env.python, "-c", LOADED).split()[1:]
    if loaded != [f"holdfast._c10d_{minor_of(torch).replace('.', '_')}"]:
        raise Failed(f"loaded were {loaded}")
    return "yes"


def ddp_with_kill(env: Environment) -> str:
    """Two of three ranks end the training, with the same bits."""
    # 137: the launcher passes on what became of the killed one.
    told = env.run("holdfast", "run", "-n", "3", "--grace", "60", HERE / "ddp_kill.py", status=137)
    ends = re.findall(r"SURVIVOR (\d) of 0 2 same steps 12", told)
    if sorted(ends) != ["0", "2"]:
        raise Failed(f"survivors {ends}: {told[-1500:]}")
    return "2 of 3 go on"


def c_example(env: Environment) -> str:
    """``cc all_reduce.c $(holdfast info --cflags --libs)``."""
    flags = shlex.split(env.run("holdfast", "info", "--cflags", "--libs"))
    program = env.folder / "all_reduce"
    source = ROOT / "examples/c/all_reduce.c"
    env.run("cc", "-std=c11", source, *flags, "-o", program, tools=True)
    env.run("holdfast", "run", "-n", "2", program)
    return "yes"


def refused_torch(env: Environment, torch: str, minors: list[str]) -> str:
    """A torch that has no module is told which have one, and the line that builds it."""
    module = module_of(env, torch)
    aside = module.with_suffix(".aside")
    module.rename(aside)
    try:
        told = env.run(env.python, "-c", REFUSED)
    finally:
        aside.rename(module)
    others = ", ".join(minor for minor in minors if minor != minor_of(torch))
    for part in (f"fits torch {others}, and this is torch {torch}", f"`{BUILD_FROM_SOURCE}`"):
        if part not in told:
            raise Failed(f"the refusal does not say {part!r}: {told}")
    return "by name"


def refused_python(env: Environment, other: str, wheel: Path) -> str:
    """Another Python's pip refuses the wheel by its tag."""
    with tempfile.TemporaryDirectory() as target:
        told = env.run(
            other, "-m", "pip", "install", "--no-deps", "--target", target, wheel,
            tools=True, status=1,
        )  # fmt: skip
    if "is not a supported wheel on this platform" not in told:
        raise Failed(told[-800:])
    return "by pip"
