"""From SIGKILL to the next finished step, and where the time goes; memory of those who restart.

``python restart_times.py --spares 1`` trains with FSDP2 and AdamW on three ranks of `holdfast run
--respawn`, with a snapshot after each step and code 2+1, and kills a rank again and again. The
table has the median over the kills of each part of the way back, in seconds. ``--kills 50
--pause 0.5`` shows what 50 restarts in one process cost in memory: the resident size of the ranks
that were never killed, at their first step and after each restart; ``--errors 50`` does without
kills: all ranks raise an error that `restartable` is told of.
"""

from __future__ import annotations

import time

BEGUN = time.monotonic()  # the program's first line

import argparse  # noqa: E402
import itertools  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

RANKS, LIMIT_S = 3, 240.0
# What a rank stamps, in order, and what the time before the stamp was for.
PARTS = {
    "first line": "the launcher sees the end and starts a process; interpreter, or hand-over",
    "imported": "import torch, holdfast",
    "met": "init_process_group, which returns when the others have let it in",
    "called": "the first advance(), in restartable",
    "built": "model, FSDP2, optimiser",
    "restored": "keepers, decoding, filling (Snapshots)",
    "step": "the first step",
}
BESIDE = {
    "in all": "from SIGKILL to the next finished step",
    "raised": "from SIGKILL until the last of the others has raised PeerLost, meanwhile",
}


def resident_kib() -> int:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1])


def train(folder: Path, width: int, errors: int) -> None:
    """A rank: train until the folder is told to stop; stamps of each call go into a file."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    import holdfast
    import holdfast.ft

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    stamps = (folder / f"stamps-{rank}-{os.getpid()}").open("a", buffering=1)

    def stamp(name: str, at: float | None = None) -> None:
        print(name, time.monotonic() if at is None else at, resident_kib(), file=stamps, sep="\t")

    stamp("first line", BEGUN)
    stamp("imported")
    os.environ["HOLDFAST_DOMAIN"] = f"host{rank}"
    dist.init_process_group("holdfast")
    stamp("met")

    @holdfast.ft.restartable(on=[LookupError])
    def job(restart: holdfast.ft.Restart) -> None:
        try:
            steps(restart.number < errors)
        except holdfast.HoldfastError:
            stamp("raised")
            raise

    def steps(fails: bool) -> None:
        stamp("called")
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width))
        for layer in (net[0], net[2], net):
            fully_shard(layer)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
        state = {"model": net, "optim": optimizer, "rng": holdfast.ft.rng()}
        stamp("built")
        with holdfast.ft.Snapshots(state, code=(RANKS - 1, 1)) as snapshots:
            stamp("restored")
            for _ in snapshots.steps(1_000_000):
                optimizer.zero_grad()
                net(torch.randn(32, 16)).square().mean().backward()
                optimizer.step()
                stamp("step")
                if fails:
                    raise LookupError("as --errors says")
                ends = torch.tensor([float((folder / "stop").exists())])
                dist.all_reduce(ends, dist.ReduceOp.MAX)
                if ends.item() or errors:
                    break

    job()
    dist.destroy_process_group()


Stamp = tuple[str, float, int]


def stamps_of(path: Path) -> list[Stamp]:
    whole = path.read_text().rpartition("\n")[0]
    rows = [line.split("\t") for line in whole.splitlines()]
    return [(name, float(at), int(kib)) for name, at, kib in rows]


def until(what: str, condition: Callable[[], object], job: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline or job.poll() is not None:
            raise SystemExit(f"never came: {what}; the job's status: {job.poll()}")
        time.sleep(0.01)


def newest(folder: Path, rank: int) -> Path | None:
    found = sorted(folder.glob(f"stamps-{rank}-*"), key=lambda path: path.stat().st_mtime_ns)
    return found[-1] if found else None


def has_stepped(path: Path | None, since: float = 0.0) -> bool:
    return path is not None and any(n == "step" and at > since for n, at, _ in stamps_of(path))


def kill(folder: Path, rank: int, job: subprocess.Popen[bytes]) -> dict[str, float]:
    """Kill a rank; return the seconds of each part until all have finished a step again."""
    before = newest(folder, rank)
    assert before is not None
    pid = int(before.name.rpartition("-")[2])
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        there = set(folder.glob(f"stamps-{rank}-*")) - known
        return any(has_stepped(path) for path in there)

    known = set(folder.glob(f"stamps-{rank}-*"))
    until(f"a step of rank {rank} after its kill", is_back, job)
    (path,) = set(folder.glob(f"stamps-{rank}-*")) - known
    last, parts = killed_at, {}
    for name, at, _ in stamps_of(path):
        if name not in parts:
            parts[name] = at - last
            last = at
    parts["in all"] = last - killed_at
    others = [newest(folder, other) for other in range(RANKS) if other != rank]
    raised = [at for path in others for n, at, _ in stamps_of(path) if n == "raised"]
    parts["raised"] = max(at for at in raised if at > killed_at) - killed_at
    for other in range(RANKS):
        until(f"a step of rank {other}", lambda o=other: has_stepped(newest(folder, o), last), job)
    return parts


def waiting_spares(job: subprocess.Popen[bytes]) -> dict[int, str]:
    """Spares that sleep, and the processor time that they have used."""
    found = {}
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    for pid in children:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        is_spare = b"holdfast._supervise.spare" in Path(f"/proc/{pid}/cmdline").read_bytes()
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # With torch in it, of which an interpreter has nothing.
        if is_spare and stat[0] == "S" and size > 25_000:
            found[int(pid)] = " ".join(stat[11:13])
    return found


def have_spares(job: subprocess.Popen[bytes], count: int) -> bool:
    """Whether so many spares wait for their environment, and import nothing any more."""
    before = waiting_spares(job)
    time.sleep(1.0)
    return len(set(before.items()) & set(waiting_spares(job).items())) >= count


def start(folder: Path, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    # As the ranks' own: what is beside this file is not to be imported by them.
    command = [sys.executable, "-m", "holdfast.cli", "run", "-n", str(RANKS), "--respawn"]
    spares = ["--spares", str(options.spares), "--max-respawns", str(options.kills + 1)]
    program = [__file__, "--rank-in", str(folder), "--width", str(options.width)]
    program += ["--errors", str(options.errors)]
    return subprocess.Popen(
        [*command, *spares, *program],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HOLDFAST_JOB": f"restart-times-{folder}"},
        stderr=(folder / "stderr").open("w"),
    )


def show(found: Sequence[dict[str, float]]) -> None:
    print("| part | seconds, median | worst | what |\n|---|---|---|---|")
    for name, what in {**PARTS, **BESIDE}.items():
        times = [parts[name] for parts in found]
        print(f"| {name} | {statistics.median(times):.2f} | {max(times):.2f} | {what} |")


def show_memory(folder: Path, victims: Sequence[int]) -> None:
    """Of the ranks that were not killed: resident MiB after their calls' first steps."""
    for rank in set(range(RANKS)) - set(victims):
        (path,) = folder.glob(f"stamps-{rank}-*")
        rows = stamps_of(path)
        firsts = [b for a, b in itertools.pairwise(rows) if a[0] == "restored"]
        sizes = [kib / 1024 for _, _, kib in firsts]
        print(
            f"rank {rank}: {len(sizes) - 1} restarts, resident MiB {sizes[0]:.1f} at first, then "
            + ", ".join(f"{size:.1f}" for size in sizes[1 :: max(1, len(sizes) // 10)])
            + f", {sizes[-1]:.1f} at last: {sizes[-1] / sizes[0]:.3f} of the first"
        )


def of_errors(options: argparse.Namespace) -> int:
    """Have all ranks restart by errors alone; show what it costs in memory."""
    with tempfile.TemporaryDirectory() as name:
        status = start(Path(name), options).wait(10 * LIMIT_S)
        if status == 0:
            show_memory(Path(name), [])
    return status


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--spares", type=int, default=0, help="of `holdfast run`")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between kills")
    parser.add_argument("--victims", default="1", help="ranks that are killed in turns: 0,1,2")
    parser.add_argument("--width", type=int, default=256, help="of the model")
    parser.add_argument("--errors", type=int, default=0, help="restarts of all, instead of kills")
    parser.add_argument("--rank-in", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank_in:
        train(Path(options.rank_in), options.width, options.errors)
        return 0
    if options.errors:
        return of_errors(options)
    victims = [int(rank) for rank in options.victims.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = start(folder, options)
        try:
            for rank in range(RANKS):
                until("the first step", lambda r=rank: has_stepped(newest(folder, r)), job)
            found = []
            for number in range(options.kills):
                time.sleep(options.pause)
                until("the spares", lambda: have_spares(job, options.spares), job)
                found.append(kill(folder, victims[number % len(victims)], job))
                print(f"# kill {number + 1}: {found[-1]['in all']:.2f} s", flush=True)
            (folder / "stop").touch()
            if (status := job.wait(LIMIT_S)) != 0:
                raise SystemExit(f"the job ended with status {status}")
        except BaseException:
            print((folder / "stderr").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            job.terminate()
            job.wait(LIMIT_S)
        show(found)
        show_memory(folder, victims)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
