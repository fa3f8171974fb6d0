"""What codecs are worth behind a slow link: DDP steps, and the size from which all_reduce gains.

    python tests/bench/slow_link.py --ranks 2,4 --mbit 1000

Every rank is a host of its own: a network namespace at a switch, whose cable the kernel holds to
the rate, both ways. Prints Markdown: seconds and bytes of a step with each codec, by the same
without (with `bfloat` the model is bfloat16, and so is what it is compared with); and for plain
sums the times by size, where the codec begins to win, and where the cost model, its constants
fitted to the sums without a codec, says that it does. Needs root, `ip`, `tc` and `nft`; says what
is missing, and ends with status 2, where they are not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/support"))

from emulated_network import Network, Unavailable
from ranks import finish, start_rank

from holdfast import _core
from holdfast.comm.bench.codec_gain import link_of, plain_seconds
from holdfast.comm.bench.plan_command import EMPTY
from holdfast.comm.codec_speed import measure
from holdfast.topology.codec_cost import break_even, coded_seconds
from holdfast.topology.link_fit import LinkModel, fit

CODECS = "bf16,fp16,fp8_e4m3,fp8_e5m2,int8,int4,onebit,topk,zstd,bfloat,bfloat(dense)"
SIZES = "1024,4096,8192,16384,32768,65536,262144,1048576,4194304,16777216"
LIMIT_S = 500.0


def run(function: str, ranks: int, mbit: float, env: dict[str, str]) -> list[dict[str, Any]]:
    """Run a function of `slow_link_ranks` on hosts of their own; the rows that it tells."""
    with tempfile.TemporaryDirectory() as here, Network(ranks) as network:
        for rank in range(ranks if mbit else 0):
            network.even_cable(rank, mbit)
        processes = []
        for rank in range(ranks):
            own = {
                "HOLDFAST_TRANSPORTS": "tcp",
                "HOLDFAST_ADDRESS": network.address(rank),
                "HOLDFAST_HOST_ID": f"host{rank}",
                "HOLDFAST_TIMEOUT": "120",
            }
            at = (rank, ranks, Path(here), {**env, **own}, network.inside(rank))
            processes.append(start_rank("slow_link_ranks", function, *at))
        outcomes = finish(processes, LIMIT_S)
    failed = "\n".join(o.output for o in outcomes if o.status != 0)
    if failed:
        raise RuntimeError(failed)
    lines = outcomes[0].output.splitlines()
    return [json.loads(line[4:]) for line in lines if line.startswith("ROW ")]


def show_steps(rows: Sequence[dict[str, Any]], ranks: int) -> None:
    print("\n| ranks | gradients as | ms a step | faster x | MB sent | fewer x |")
    print("|---|---|---|---|---|---|")
    plains = {row["name"]: row for row in rows if row["name"] in ("float32", "bfloat16")}
    for row in rows:
        # By the same model, uncompressed.
        plain = plains["bfloat16" if "bfloat16" in row["name"] else "float32"]
        # A few bytes of heartbeats are no gradients.
        fewer = f"{plain['bytes'] / row['bytes']:.1f}" if "compute" not in row["name"] else ""
        faster = f"{plain['seconds'] / row['seconds']:.1f}"
        print(
            f"| {ranks} | {row['name']} | {row['seconds'] * 1e3:.1f} | {faster} "
            f"| {row['bytes'] / 1e6:.2f} | {fewer} |",
            flush=True,
        )


def plan_with(link: LinkModel) -> str:
    return f"holdfast-plan 1\nlink tcp {link.alpha!r} {link.beta!r} {link.gamma!r}\n"


def fitted(rows: Sequence[dict[str, Any]], ranks: int) -> LinkModel:
    """The link's constants, from the sums without a codec.

    What a reduced byte costs is the machine's, and stays as it is built in: in these algorithms
    reduced bytes are in proportion to sent ones, so that no fit can tell them apart.
    """
    terms, seconds = [], []
    for row in rows:
        ran, _ = plain_seconds(ranks, row["size"], EMPTY)
        found = _core.cost_terms("all_reduce", ran, ranks, row["size"])
        assert found is not None
        terms.append((found[0], found[1], 0.0))
        seconds.append(row["seconds"]["float32"])
    model = fit(terms, seconds)
    if model is None:
        raise SystemExit("--sizes: accepted: three and more, for the model to be fitted")
    return replace(model, gamma=link_of(EMPTY).gamma)


def size_text(size: int | None) -> str:
    if size is None:
        return "never"
    return f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def measured_break_even(rows: Sequence[dict[str, Any]], codec: str) -> int | None:
    """The size of the smallest row from which on the codec is always faster."""
    least = None
    for row in sorted(rows, key=lambda row: -row["size"]):
        if row["seconds"][codec] >= row["seconds"]["float32"]:
            break
        least = row["size"]
    return least


def show_sums(rows: Sequence[dict[str, Any]], ranks: int, codecs: Sequence[str]) -> None:
    link = fitted(rows, ranks)
    plan = plan_with(link)
    costs = {codec: measure(codec) for codec in codecs}
    print(f"\n| ranks | size | float32 us, model | {', model | '.join(codecs)}, model |")
    print("|---|---|---|" + "---|" * len(codecs))
    for row in rows:
        size, taken = row["size"], row["seconds"]
        _, plain = plain_seconds(ranks, size, plan)
        cells = [f"{taken['float32'] * 1e6:.0f}, {plain * 1e6:.0f}"]
        for codec, cost in costs.items():
            model = coded_seconds(link, ranks, size, cost)
            cells.append(f"{taken[codec] * 1e6:.0f}, {model * 1e6:.0f}")
        print(f"| {ranks} | {size_text(size)} | {' | '.join(cells)} |")
    print(f"\nfitted: {link.alpha * 1e6:.1f} us a message, {link.beta * 1e9:.2f} ns a byte\n")
    print("| ranks | codec | frame | encode, decode GB/s | wins from, measured | model |")
    print("|---|---|---|---|---|---|")
    for codec, cost in costs.items():
        says = break_even(link, ranks, cost, lambda size: plain_seconds(ranks, size, plan)[1])
        print(
            f"| {ranks} | {codec} | {cost.ratio:.3f} | {1e-9 / cost.encode:.1f}, "
            f"{1e-9 / cost.decode:.1f} | {size_text(measured_break_even(rows, codec))} "
            f"| {size_text(says)} |",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", default="2,4", help="by commas")
    parser.add_argument("--mbit", type=float, default=1000, help="of every link; 0: unshaped")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="of a turn; 0: no training")
    parser.add_argument("--layers", type=int, default=4, help="a million parameters each")
    parser.add_argument("--codecs", default=CODECS, help="for the training")
    parser.add_argument("--sums", default="int8,onebit", help="codecs for plain sums; empty: none")
    parser.add_argument("--sizes", default=SIZES, help="bytes, of the sums")
    options = parser.parse_args()
    sums = [codec for codec in options.sums.split(",") if codec]
    env = {
        "ROUNDS": str(options.rounds),
        "LAYERS": str(options.layers),
        "TURN_STEPS": str(options.steps),
        "SIZES": options.sizes,
    }
    try:
        for ranks in map(int, options.ranks.split(",")):
            if options.steps:
                rows = run("train", ranks, options.mbit, {**env, "CODECS": options.codecs})
                show_steps(rows, ranks)
            if sums:
                rows = run("sums", ranks, options.mbit, {**env, "CODECS": ",".join(sums)})
                show_sums(rows, ranks, sums)
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
