"""The faults that the doctor has to tell, and whom it has to name: for tests and for the bench."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doctor_world import Verdict, World
from emulated_network import Network, Unavailable

SIZE = 4
Finding = dict[str, Any]
# How long a slow job has been slow when the doctor is asked; what hangs or is dead needs no time.
SLOW_S = 1.5
TCP = {"HOLDFAST_TRANSPORTS": "tcp"}
SLOW_MBIT = 20.0


@dataclass(frozen=True)
class Case:
    """One fault in one world."""

    world: World
    victim: int
    other: int  # the far end of a link
    network: Network | None = None


@dataclass(frozen=True)
class Fault:
    """What happens, and what has to be said of it.

    `inflict` returns what the doctor is asked; nothing: the ranks' pages.
    """

    name: str
    inflict: Callable[[Case], list[str] | None]
    kinds: tuple[str, ...]
    culprit: str = "rank"  # rank, link, host, file, coordinator
    env: dict[str, str] = field(default_factory=dict)
    network: bool = False
    function: str = "train"
    hosts: tuple[str, ...] = ()
    coordinated: bool = False
    stack: str = ""  # what the culprit's stack must show
    settle_s: float = 0.0


def suffers(what: str) -> Callable[[Case], None]:
    return lambda case: case.world.befall(what)


def stops(case: Case) -> None:
    case.world.signal(case.victim, signal.SIGSTOP)


def dies(case: Case) -> None:
    case.world.signal(case.victim, signal.SIGKILL)
    case.world.ranks[case.victim].wait(10)


def dies_seen_in_files(case: Case) -> list[str]:
    dies(case)
    return [str(case.world.flight)]


def differs(what: str) -> Callable[[Case], list[str]]:
    """Calls that do not match end the job: what is left is its records."""

    def inflict(case: Case) -> list[str]:
        case.world.befall(what)
        return [str(case.world.flight)]

    return inflict


def starves(case: Case) -> None:
    """Hogs on the processor of one rank; the others have the rest."""
    cores = sorted(os.sched_getaffinity(0))
    for rank, process in enumerate(case.world.ranks):
        mine = {cores[0]} if rank == case.victim else set(cores[1:]) or {cores[0]}
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), mine)
    case.world.hog(8, {cores[0]})


def starves_seen_in_files(case: Case) -> list[str]:
    starves(case)
    return [str(case.world.flight)]


def loses_its_coordinator(case: Case) -> list[str]:
    coordinator = case.world.others[0]
    coordinator.kill()
    coordinator.wait(10)
    return ["--targets", case.world.targets, *case.world.addresses()]


def network_of(case: Case) -> Network:
    assert case.network is not None
    return case.network


def slow_sender(case: Case) -> None:
    network_of(case).slow_sender(case.victim, SLOW_MBIT)


def slow_receiver(case: Case) -> None:
    network_of(case).slow_receiver(case.victim, SLOW_MBIT)


def slow_link(case: Case) -> None:
    network_of(case).slow_link(case.victim, case.other, SLOW_MBIT)


def decaying_link(case: Case) -> list[str]:
    """Its rate is halved again and again while the doctor watches."""
    network = network_of(case)

    def decay() -> None:
        for step in range(8):
            with contextlib.suppress(Unavailable):  # the world may be gone by now
                network.slow_link(case.victim, case.other, 400 / 2**step)
            time.sleep(1.2)

    network.slow_link(case.victim, case.other, 800)
    threading.Thread(target=decay, daemon=True).start()
    return [*case.world.addresses(), "--watch", "1", "--looks", "4"]


def lossy_link(case: Case) -> None:
    network_of(case).lossy_link(case.victim, case.other, 5)


def _copies(case: Case) -> list[Path]:
    """Copies of all records, as somebody makes them who sends them in."""
    folder = case.world.here / "copies"
    folder.mkdir()
    copies = []
    for rank, process in enumerate(case.world.ranks):
        (path,) = case.world.flight.glob(f"holdfast-{process.pid}-*.flight")
        copies.append(folder / f"rank{rank}.flight")
        copies[-1].write_bytes(path.read_bytes())
    return copies


def disk_is_full(case: Case) -> list[str]:
    """The victim's record is written to a disk that has no room for all of it."""
    copies = _copies(case)
    whole = copies[case.victim].read_bytes()
    copies[case.victim].unlink()
    pid = os.fork()
    if pid == 0:
        # A full disk in a process of its own: files may have so many bytes, and no more.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2 + 100, len(whole) // 2 + 100))
        with contextlib.suppress(OSError):
            copies[case.victim].write_bytes(whole)
        os._exit(0)
    os.waitpid(pid, 0)
    return [str(copies[0].parent)]


def dump_is_corrupt(case: Case) -> list[str]:
    copies = _copies(case)
    content = bytearray(copies[case.victim].read_bytes())
    content[:64] = random.Random(case.victim).randbytes(64)
    copies[case.victim].write_bytes(content)
    return [str(copies[0].parent)]


FAULTS = (
    Fault("stopped (SIGSTOP)", stops, ("stopped", "mute", "lost")),
    Fault("kill -9, by pages", dies, ("dead", "lost")),
    Fault("kill -9, by records", dies_seen_in_files, ("dead", "lost")),
    Fault("slow compute", suffers("slow_compute"), ("slow-compute",), settle_s=SLOW_S),
    Fault(
        "slow compute, tcp", suffers("slow_compute"), ("slow-compute",), env=TCP, settle_s=SLOW_S
    ),
    Fault("slow input", suffers("slow_input"), ("slow-compute",), settle_s=SLOW_S),
    Fault("CPU hog on one rank", starves, ("slow-compute", "slow-rank"), settle_s=SLOW_S),
    Fault("starved of a processor", starves_seen_in_files, ("starved",), settle_s=SLOW_S),
    Fault(
        "slow host",
        suffers("slow_compute"),
        ("slow-host",),
        culprit="host",
        hosts=("a", "a", "b", "b"),
        settle_s=SLOW_S,
    ),
    Fault("collective left out", differs("skip"), ("mismatch",), settle_s=0.5),
    Fault("wrong shape", differs("wrong_shape"), ("mismatch",), settle_s=0.5),
    Fault("wrong dtype", differs("wrong_dtype"), ("mismatch",), settle_s=0.5),
    Fault(
        "deadlocked Python thread",
        suffers("deadlocked_thread"),
        ("hang",),
        stack="hold_a_lock_forever",
    ),
    Fault("endless loop", suffers("endless_loop"), ("hang",), stack="suffer"),
    Fault("stuck in C with the lock", suffers("stuck_in_c"), ("hang",), stack="suffer"),
    Fault(
        "message never sent",
        suffers("now"),
        ("hang",),
        function="wait_for_a_message",
        stack="hold_a_lock_forever",
    ),
    Fault("two groups in two orders", suffers("now"), ("deadlock",), function="cross_two_groups"),
    Fault(
        "dead coordinator",
        loses_its_coordinator,
        ("coordinator",),
        culprit="coordinator",
        coordinated=True,
    ),
    Fault("slow sender", slow_sender, ("slow-network",), network=True, settle_s=SLOW_S),
    Fault("slow receiver", slow_receiver, ("slow-network",), network=True, settle_s=SLOW_S),
    Fault(
        *("slow link", slow_link, ("slow-link", "lossy-link")),
        culprit="link",
        network=True,
        settle_s=SLOW_S,
    ),
    Fault(
        *("packet loss on a link", lossy_link, ("lossy-link", "slow-link")),
        culprit="link",
        network=True,
        settle_s=SLOW_S,
    ),
    Fault(
        *("decaying link, watched", decaying_link, ("decaying-link", "slow-link")),
        culprit="link",
        network=True,
    ),
    Fault("disk full at dump", disk_is_full, ("bad-dump",), culprit="file"),
    Fault("corrupt dump", dump_is_corrupt, ("bad-dump",), culprit="file"),
)


def names_it(fault: Fault, case: Case, finding: Finding) -> bool:
    """Whether a finding has the right kind and the right culprit."""
    culprit = finding["culprit"]
    wanted = {
        "rank": culprit["ranks"] == [case.victim] and not culprit["host"],
        "link": sorted(culprit["link"] or ()) == sorted((case.victim, case.other)),
        "host": culprit["host"] == "b",
        "file": culprit["file"].endswith(f"rank{case.victim}.flight"),
        "coordinator": bool(culprit["coordinator"]),
    }
    right = finding["kind"] in fault.kinds and wanted[fault.culprit]
    return right and fault.stack in finding["stack"]


@dataclass(frozen=True)
class Trial:
    """What came of one fault."""

    verdict: Verdict
    right: bool  # the culprit is named
    alone: bool  # and nobody else
    since_s: float  # from the fault to the answer
    victim: int


def try_fault(fault: Fault, here: Path, seed: int) -> Trial:
    """Inflict a fault on a world of its own, and ask the doctor."""
    chance = random.Random(f"{fault.name} {seed}")
    victim, other = chance.sample(range(1 if fault.function != "train" else 0, SIZE), 2)
    victims = "2,3" if fault.hosts else str(victim)
    env = {"VICTIM": victims, "SEED": str(seed), **fault.env}
    if fault.network:
        env |= TCP
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(SIZE)) if fault.network else None
        made = World(
            *(here, SIZE, fault.function, env, network),
            hosts=fault.hosts,
            coordinated=fault.coordinated,
        )
        world = stack.enter_context(made)
        case = Case(world, victim, other, network)
        world.train_a_while(0.7)
        began = time.monotonic()
        arguments = fault.inflict(case) or []
        time.sleep(fault.settle_s)
        verdict = world.doctor(*arguments)
        since = time.monotonic() - began
    named = [names_it(fault, case, finding) for finding in verdict.accusations]
    right, alone = any(named) and verdict.status == 1, all(named) and bool(named)
    return Trial(verdict, right, alone, since, victim)


def try_healthy(here: Path, seed: int) -> Verdict:
    """Ask the doctor of a healthy job on a machine with more to do than it can."""
    transports = ("shm,tcp", "tcp", "shm,tcp", "tcp")[seed % 4]
    env = {"SEED": str(seed), "HOLDFAST_TRANSPORTS": transports, "VICTIM": "-1"}
    hosts = ("a", "a", "b", "b") if seed % 4 == 2 else ()
    with contextlib.ExitStack() as stack:
        network = None
        with contextlib.suppress(Unavailable):
            network = stack.enter_context(Network(SIZE)) if seed % 4 == 3 else None
        world = stack.enter_context(World(here, SIZE, env=env, hosts=hosts, network=network))
        world.hog(seed % 3, set(os.sched_getaffinity(0)))
        world.train_a_while(1.5)
        return world.doctor()


def show(trial: Trial) -> str:
    """For a test that failed."""
    return f"{trial.verdict.status} after {trial.verdict.seconds:.1f} s\n{trial.verdict.text}"
