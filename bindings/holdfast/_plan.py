"""``holdfast plan``: of collectives (``comm/bench/plan_command.py``), and of a training."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

from holdfast.comm import codec_speed
from holdfast.comm.bench import plan_command
from holdfast.compress.codec import codec_text, is_lossless
from holdfast.errors import ConfigError
from holdfast.ft.outer import codec_list, trainer_plan
from holdfast.ft.outer.round_time import Rates
from holdfast.ft.outer.trainer_plan import Task, TrainerPlan
from holdfast.topology import chart
from holdfast.topology.link_fit import LinkModel
from holdfast.topology.slowest import slowest_link

EXAMPLES = (
    plan_command.EXAMPLES
    + """\
  holdfast plan --trainer --parameters 1.2B --step-seconds 0.8 -n 4 --mbit 200 --rtt 60
  holdfast plan --trainer --parameters 300M --tokens-per-second 20000 --tokens-per-step 8192 \\
    --topology map.json --codec bf16+int4 --json
"""
)
_CODECS = "bf16+int8+int4"
_DTYPES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
# What belongs to --trainer alone, and what does not belong to it, with its default.
_OWN = (
    *("parameters", "dtype", "step_seconds", "tokens_per_second", "tokens_per_step"),
    *("mbit", "rtt", "method", "inner_steps", "fragments"),
)
_OTHERS: dict[str, object] = {
    **dict.fromkeys(("measure", "exact"), False),
    **dict.fromkeys(("output", "steps", "plan", "sizes")),
    "without": [],
    "root": 0,
    "hosts": 1,
    "collectives": "all",
    "transport": "shm,tcp",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    plan_command.add_arguments(parser)
    of = parser.add_argument_group(
        "of a training in rounds (holdfast.ft); its members are --ranks, or those of --topology, "
        f"and what it may choose from is --codec (default: {_CODECS})"
    )
    add = of.add_argument
    add("--trainer", action="store_true", help="which trainer, rounds and codec hide the distance")
    add("--parameters", metavar="COUNT", help="of the model, as 124000000, 124M or 1.2B")
    add("--dtype", choices=tuple(_DTYPES), help="of the model (float32)")
    add("--step-seconds", type=float, metavar="S", help="of a member's local step, as measured")
    add("--tokens-per-second", type=float, metavar="N", help="of a member, instead of that")
    add("--tokens-per-step", type=float, metavar="N", help="of a member, beside that")
    add("--mbit", type=float, metavar="RATE", help="of a member's link, in Mbit/s; or --topology")
    add("--rtt", type=float, metavar="MS", help="round trip between members (0); or --topology")
    add("--method", choices=trainer_plan.METHODS, help="default: what fits")
    add("--inner-steps", type=int, metavar="H", help="local steps of a round; default: what fits")
    add("--fragments", type=int, metavar="N", help="of StreamingDiLoCo (2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Raises
    ------
    ConfigError
        For arguments that cannot be used; the message names what is accepted.
    """
    if not arguments.trainer:
        if given := [name for name in _OWN if getattr(arguments, name) is not None]:
            raise ConfigError(f"--{given[0].replace('_', '-')} goes with --trainer")
        return plan_command.run(arguments)
    if given := [name for name, unset in _OTHERS.items() if getattr(arguments, name) != unset]:
        raise ConfigError(f"--{given[0]} does not go with --trainer")
    task = _task(arguments)
    made = trainer_plan.plan(task)
    gradients = _DTYPES[arguments.dtype or "float32"] * task.parameters
    ddp = 2 * (task.rates.members - 1) / task.rates.members * gradients
    fewer = ddp * made.inner_steps / (made.bytes_per_day * made.round_s / 86400)
    if arguments.json:
        print(json.dumps({**asdict(made), "members": task.rates.members, "fewer_than_ddp": fewer}))
    else:
        print("\n".join(_lines(task, made, fewer)))
    return 0


def _task(arguments: argparse.Namespace) -> Task:
    link, members = _link(arguments)
    fragments = 2 if arguments.fragments is None else arguments.fragments
    if fragments < 1:
        raise ConfigError(f"--fragments {fragments}; accepted: 1 and more")
    fits = tuple(h for h in trainer_plan.INNER_STEPS if h % fragments == 0)
    if not fits and arguments.inner_steps is None:
        raise ConfigError(
            f"--fragments {fragments}, which divide none of the rounds that are tried "
            f"({', '.join(map(str, trainer_plan.INNER_STEPS))}); give --inner-steps, too"
        )
    codecs = _codecs(arguments.codec or _CODECS)
    costs = [codec_speed.measure(codec) for codec in codecs]
    codec_list.refuse_disorder(codecs, [cost.ratio for cost in costs])
    task = Task(
        _parameters(arguments.parameters),
        Rates(members, _step_s(arguments), link),
        tuple(zip(codecs, costs, strict=True)),
        inner_steps=fits if arguments.inner_steps is None else (arguments.inner_steps,),
        fragments=fragments,
    )
    return task if arguments.method is None else replace(task, methods=(arguments.method,))


def _parameters(text: str | None) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMBT]?)", (text or "").strip(), re.IGNORECASE)
    count = round(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if count < 1:
        raise ConfigError(f"--parameters {text or 'is missing'}; accepted: as 124000000 or 1.2B")
    return count


def _step_s(arguments: argparse.Namespace) -> float:
    rate, tokens = arguments.tokens_per_second, arguments.tokens_per_step
    if (arguments.step_seconds is None) == (rate is None) or (rate is None) != (tokens is None):
        raise ConfigError(
            "the computation of a local step is not known; accepted: --step-seconds, or "
            "--tokens-per-second and --tokens-per-step"
        )
    for name in ("step_seconds", "tokens_per_second", "tokens_per_step"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--{name.replace('_', '-')} {value}; accepted: above 0")
    return float(arguments.step_seconds or tokens / rate)


def _link(arguments: argparse.Namespace) -> tuple[LinkModel, int]:
    if (arguments.topology is None) == (arguments.mbit is None):
        raise ConfigError(
            "the links are not known; accepted: --mbit and --rtt, or --topology with a map that "
            "holdfast topology measure has made"
        )
    if arguments.topology is not None:
        if arguments.rtt is not None:
            raise ConfigError("--rtt with --topology; accepted: one of them")
        try:
            read = chart.read(Path(arguments.topology).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"topology {arguments.topology}: {error}") from None
        return slowest_link(read), read.ranks
    round_trip_ms = arguments.rtt or 0.0
    for name, value, fits in (
        ("mbit", arguments.mbit, 0 < arguments.mbit < float("inf")),
        ("rtt", round_trip_ms, 0 <= round_trip_ms < float("inf")),
    ):
        if not fits:
            raise ConfigError(f"--{name} {value}; accepted: above 0")
    try:
        members = int(arguments.ranks)
    except ValueError:
        members = 0
    if members < 2:
        raise ConfigError(f"--ranks {arguments.ranks} with --trainer; accepted: a number from 2 on")
    return LinkModel(round_trip_ms / 2e3, 8e-6 / arguments.mbit, 0.0), members


def _codecs(text: str) -> list[str]:
    codecs = [codec_text(name) for name in text.split("+")]
    for codec in codecs:
        if is_lossless(codec):
            raise ConfigError(
                f"--codec {codec}: how much it saves is known only afterwards; accepted: codecs "
                f"that lose something, as {_CODECS}"
            )
    return codecs


def _lines(task: Task, made: TrainerPlan, fewer: float) -> list[str]:
    rates = task.rates
    own = [f"inner_steps={made.inner_steps}"]
    if made.fragments > 1:
        own.append(f"fragments={made.fragments}")
    if made.delay:
        own.append(f"delay={made.delay}")
    own.append(f'codec="{made.codec}"')
    lines = [
        f"trainer = holdfast.ft.{made.method}(",
        f"    model, inner, group, {', '.join(own)}",
        ")",
        f"for {task.parameters:,} parameters on {rates.members} members, {rates.step_s:.3g} s a "
        f"local step, {8e-6 / rates.link.beta:.4g} Mbit/s, a round trip of "
        f"{2e3 * rates.link.alpha:.3g} ms",
        f"round     {made.round_s:.4g} s, of which {made.compute_s:.4g} s computation",
        f"exchange  {made.exchange_s:.4g} s, {made.fragments} in a round; {made.hidden:.1%} of "
        "that is hidden",
        f"waiting   {made.exposed:.1%} of the time",
        f"bytes     {made.bytes_per_day / 1e9:.4g} GB a day that a member sends, 1/{fewer:.0f} of "
        "an all_reduce at each step",
        f"peak      {8e-6 * made.peak_bytes_per_s:.4g} Mbit/s",
    ]
    if not made.is_enough:
        lines.append(
            "Not hidden with a quarter of the rate in reserve: longer rounds (--inner-steps), "
            "smaller frames (--codec) or faster links are needed."
        )
    return lines
