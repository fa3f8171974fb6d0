"""``holdfast top``: a job's ranks, views, links and events in the terminal."""

from __future__ import annotations

import argparse
import json
import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigError, HoldfastError
from holdfast.ft.health import access, status

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

EXAMPLES = """examples:
  holdfast top coordinator:9400                a coordinator's pages (holdfast coordinator --http)
  holdfast top --once 127.0.0.1:9400           a table, and the end: for scripts
  holdfast top --json host1:9400 | jq .worlds  what /status says
Without a coordinator, the pages of rank 0 tell the same (HOLDFAST_HTTP).
"""

# As wide as the columns need where nobody says how wide the terminal is.
_WIDTH = 110
_RANKS = 40
_LINKS = 8
_EVENTS = 8
_CALLS = 8
_FAR = 8
_SHORTEST_S = 0.1
_COLOURS = {
    **dict.fromkeys(("gone", "lost", "failed"), "bold red"),
    **dict.fromkeys(("changing", "silent", "unheard"), "yellow"),
    **dict.fromkeys(("left", "vacant"), "dim"),
    "well": "green",
}
_FAR_COLOURS = {"cut": "bold red", "mended": "yellow", "well": "green"}
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Pages:
    """Whose pages are shown, and with what they are read."""

    address: str
    access: access.Access

    def fetch(self) -> Fields:
        return status.fetch(self.address, access=self.access)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument("address", metavar="HOST:PORT", help="of a coordinator's or rank's pages")
    parser.add_argument("--once", action="store_true", help="print once, and end")
    parser.add_argument("--json", action="store_true", help="print what /status says, and end")
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="between looks (default: 1)"
    )
    access.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0; 1 with ``--once`` or ``--json`` when a rank is lost, gone or failed.
    """
    interval = arguments.interval
    if not math.isfinite(interval) or interval < _SHORTEST_S:
        raise ConfigError(f"--interval {interval}; accepted: {_SHORTEST_S} seconds and more")
    pages = _Pages(arguments.address, access.access_of(arguments))
    said = pages.fetch()
    if arguments.json:
        print(json.dumps(said, indent=1))
        return _verdict(said)
    console = _console()
    if arguments.once:
        console.print(_picture(said, pages))
        return _verdict(said)
    return _watch(console, pages, said, interval)


def _verdict(said: Fields) -> int:
    ranks = [rank for world in said["worlds"] for rank in world["ranks"]]
    return int(any(rank["state"] in ("gone", "lost", "failed") for rank in ranks))


def _console() -> Console:
    try:
        from rich.console import Console
    except ModuleNotFoundError as error:
        raise ConfigError(
            "holdfast top needs the package rich: pip install 'holdfast[top]'; --json does not"
        ) from error
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _watch(console: Console, pages: _Pages, said: Fields, interval_s: float) -> int:
    from rich.live import Live

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    pictures = _pictures(pages, said, interval_s, stop)
    if not console.is_terminal:
        for picture in pictures:
            console.print(picture)
        return 0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for picture in pictures:
            live.update(picture, refresh=True)
    return 0


def _pictures(
    pages: _Pages, said: Fields, interval_s: float, stop: threading.Event
) -> Iterator[RenderableType]:
    yield _picture(said, pages)
    while not stop.wait(interval_s):
        trouble = ""
        try:
            said = pages.fetch()
        except HoldfastError as error:
            trouble = str(error)
        yield _picture(said, pages, trouble)


# ---- what is shown -------------------------------------------------------------------------------


def plain(text: object) -> str:
    """Return text that cannot steer a terminal: it comes from other hosts.

    Parameters
    ----------
    text : object
        Anything.

    Returns
    -------
    str
        Its text, with a question mark for every character that cannot be printed.
    """
    return "".join(c if c.isprintable() else "?" for c in str(text))


def short(value: float) -> str:
    """Return a number in four characters and a letter.

    Parameters
    ----------
    value : float
        0 and more.

    Returns
    -------
    str
        For example ``"1.23M"``.
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _clock(time_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_s))


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        left = column in ("state", "host", "what")
        table.add_column(column, justify="left" if left else "right", no_wrap=not left)
    return table


def _ranks(world: Fields) -> Table:
    from rich.text import Text

    table = _table(
        f"{plain(world['name'])}: epoch {world['epoch']}, {world['members']} of {world['size']} "
        f"ranks" + (f", {world['waiting']} waiting" if world["waiting"] else ""),
        *("rank", "state", "host", "epoch", "heard", "ops/s", "bytes/s", "failed", "open"),
        *("waits", "waited for"),
    )
    calm = {"well": 1, "vacant": 2}
    order = sorted(
        world["ranks"], key=lambda r: (calm.get(r["state"], 0), -r["waited_for"], r["rank"])
    )
    for rank in sorted(order[:_RANKS], key=lambda r: int(r["rank"])):
        state = rank["state"] + (f": {rank['cause']}" if rank["cause"] else "")
        numbers = [
            str(rank.get("epoch", "")),
            _age(rank["heard_s"]),
            *(short(rank[name]) if name in rank else "" for name in ("ops_per_s", "bytes_per_s")),
            *(str(rank.get(name, "")) for name in ("failed", "queue")),
            _share(rank.get("waits")),
            _share(rank["waited_for"]),
        ]
        table.add_row(
            str(rank["rank"]),
            Text(plain(state), _COLOURS.get(rank["state"], "yellow")),
            Text(plain(rank["host"])[:32]),
            *numbers,
        )
    left_out = world["ranks_left_out"] + max(0, len(world["ranks"]) - _RANKS)
    if left_out:
        table.caption = f"{left_out} more"
    return table


def _links(world: Fields) -> Table | None:
    links = sorted(world["links"], key=lambda link: -link["wait_share"])[:_LINKS]
    if not links:
        return None
    table = _table(
        "links, those that are waited for most first",
        *("rank", "peer", "waits", "waited", "sent", "received", "bytes/s"),
    )
    for link in links:
        table.add_row(
            str(link["rank"]),
            plain(link["peer"]),
            _share(link["wait_share"]),
            f"{link['wait_s']:.3f} s",
            short(link["sent_bytes"]),
            short(link["received_bytes"]),
            short(link["bytes_per_s"]),
        )
    return table


def _far_links(world: Fields) -> Table | None:
    """Trunks and relayed links; those that are cut, or were of late, come first."""
    from rich.text import Text

    links = world.get("far_links", [])
    if not links:
        return None
    table = _table(
        "far links",
        *("rank", "peer", "state", "why", "way", "lanes", "control", "rtt", "bytes/s", "again"),
        *("cuts", "1 min"),
    )
    for link in links[:_FAR]:
        table.add_row(
            str(link["rank"]),
            plain(link["peer"]),
            Text(plain(_far_state(link)), _FAR_COLOURS.get(link["state"], "")),
            plain(link["cut_why"]),
            "relay" if link["relayed"] else "direct",
            str(link["lanes"]),
            plain(link["control"]),
            f"{1e3 * link['rtt_s']:.1f} ms",
            short(link["bytes_per_s"]),
            short(link["sent_again_bytes"]),
            str(link["cuts"]),
            str(link["recent_cuts"]),
        )
    left_out = world["far_links_left_out"] + max(0, len(links) - _FAR)
    if left_out:
        table.caption = f"{left_out} more"
    return table


def _far_state(link: Fields) -> str:
    if link["state"] == "cut":
        return f"cut for {_age(link['down_s'])}"
    if link["state"] == "mended":
        return f"cut {_age(link['cut_s'])} ago"
    return str(link["state"])


def _calls(pages: _Pages) -> Table | None:
    """What the process at this address has called most, where it runs a program of MPI."""
    metrics = status.metrics(pages.address, access=pages.access)
    calls = metrics.by("holdfast_calls_total", "call")
    messages = metrics.by("holdfast_messages_total", "direction")
    rows = sorted(calls.items(), key=lambda item: -item[1])[:_CALLS]
    rows += [(f"messages {name}", count) for name, count in sorted(messages.items())]
    if not rows:
        return None
    table = _table("calls of the program there", "count", "what")
    for name, count in rows:
        table.add_row(short(count), plain(name))
    return table


def _events(said: Fields) -> Table | None:
    from rich.text import Text

    events = said["events"][-_EVENTS:]
    if not events:
        return None
    table = _table("events", "time", "what")
    for event in events:
        what = f"{event['world']}: {event['kind']}"
        if event["count"]:
            named = ", ".join(str(rank) for rank in event["ranks"])
            more = f" and {event['count'] - len(event['ranks'])} more"
            what += f" {named}" + (more if event["count"] > len(event["ranks"]) else "")
        what += "".join(f": {event[part]}" for part in ("cause", "why") if event[part])
        bad = event["kind"] in ("lost", "blocked")
        table.add_row(_clock(event["time_s"]), Text(plain(what), "bold red" if bad else ""))
    return table


def _picture(said: Fields, pages: _Pages, trouble: str = "") -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    head = Text(
        f"Holdfast {plain(said['role'])} at {plain(pages.address)}, {_clock(said['time_s'])}"
    )
    parts: list[RenderableType] = [head]
    for wrong in (trouble and f"{trouble}; what follows is old", said["sickness"]):
        if wrong:
            parts.append(Text(plain(wrong), "bold red"))
    if not said["worlds"]:
        parts.append(Text("no world yet"))
    for world in said["worlds"]:
        parts.append(_ranks(world))
        if world["blocked"]:
            parts.append(Text(plain(world["blocked"]), "bold red"))
        for slow in world["stragglers"]:
            parts.append(
                Text(
                    f"straggler: rank {slow['rank']} on {plain(slow['host'])}: the others wait for "
                    f"it {_share(slow['waited_for'])} of the time",
                    "yellow",
                )
            )
        tables = (_links(world), _far_links(world))
        parts += [table for table in tables if table is not None]
    parts += [table for table in (_calls(pages), _events(said)) if table is not None]
    return Group(*parts)
