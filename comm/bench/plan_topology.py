"""``holdfast plan --topology``: the plan of a collective on a map of links."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from holdfast.comm.bench import plan, report
from holdfast.errors import ConfigError
from holdfast.topology import exact, forest

HEADER = (
    f"{'collective':<15}{'ranks':>6}{'size':>7}{'trees':>7}{'time':>12}{'bound':>12}"
    f"{'ratio':>7}  {'takes':<17}why"
)
DEFAULT_SIZES = "256M"


def _read(name: str) -> str:
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"topology {name}: {error}") from None


def _line(made: forest.ForestPlan) -> str:
    ratio = made.predicted_s / made.bound_s if made.bound_s > 0 else 1.0
    return (
        f"{made.collective:<15}{made.ranks:>6}{report.size_text(made.bytes):>7}"
        f"{len(made.trees):>7}{1e3 * made.predicted_s:>9.2f} ms{1e3 * made.bound_s:>9.2f} ms"
        f"{ratio:>7.3f}  {made.choice or 'forest':<17}{made.why}"
    )


def _plans(
    arguments: argparse.Namespace, text: str, collectives: list[str]
) -> Iterator[forest.ForestPlan]:
    sizes = [plan.parse_size(size) for size in arguments.sizes.split(",")]
    for collective in collectives:
        for size in sizes:
            yield forest.plan(
                text, collective, size=size, root=arguments.root, without=arguments.without
            )


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises
    ------
    ConfigError
        For a map or arguments that cannot be used; the message names what is accepted.
    """
    text = _read(arguments.topology)
    collectives = plan.chosen("--collectives", arguments.collectives, forest.COLLECTIVES)
    if arguments.steps is not None:
        if len(collectives) != 1:
            raise ConfigError(
                f"--steps with {len(collectives)} collectives; accepted: one, as -c all_reduce"
            )
        lines = forest.steps(text, collectives[0], root=arguments.root, without=arguments.without)
        arguments.steps.write_text("".join(f"{line}\n" for line in lines))
    if not arguments.json:
        print(HEADER)
    for made in _plans(arguments, text, list(collectives)):
        bound = _exact(arguments, text, made)
        if arguments.json:
            print(json.dumps({**made.to_json(), **({} if bound is None else {"exact_s": bound})}))
            continue
        print(_line(made))
        if bound is not None:
            print(
                f"{'':<15}the exact bound is {1e3 * bound:.2f} ms: "
                f"{(made.predicted_s - made.latency_s) / bound:.4f} of it, without latency"
            )
    return 0


def _exact(arguments: argparse.Namespace, text: str, made: forest.ForestPlan) -> float | None:
    if not arguments.exact or made.bytes == 0 or made.collective not in exact.COLLECTIVES:
        return None
    return exact.bound_s(
        text, made.collective, size=made.bytes, root=made.root, without=arguments.without
    )
