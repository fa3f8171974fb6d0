"""metrics.md: the table of metrics of native/health/families.h."""

from __future__ import annotations

from holdfast import _core
from reference.markdown import head, item, paragraph, section, words

# What a scraper reads has these behind the family's name.
SUFFIXES = {"counter": "_total", "info": "_info"}

TOP = """
A process serves these under `/metrics`, once the option `http` says where
([health.md](../operate/health.md)): in OpenMetrics 1.0 with exemplars where the header Accept asks
for it, else in the text format 0.0.4. Counters begin at 0 with the process. A sample appears once
it was counted; those without labels, and those with the label `cause` or `why`, appear from 0 on.
"""

LABELS = (
    "`peer` is a rank of the world, 0 to 63; all others are one, `other`, whose round-trip time is "
    "that of one of them.",
    "`path` is the [way](algorithms.md#ways) that carried the op: {paths}.",
    "`codec` is a name of [codecs.md](codecs.md), `method` that of a "
    "[reducer or optimiser](python/compress.md).",
    "A process in several worlds shows epoch, members and rank of the one that changed last.",
)

RELAY = (
    "`holdfast relay --http HOST:PORT` serves `holdfast_build_info` and those `holdfast_relay_...` "
    "that a coordinator serves, which has them of its own relay, where it has a secret."
)

PATHS = (
    "`flat` (small, in shared memory), `slices` (large, in shared memory), `schedule` (an "
    "algorithm, over links), `repair` (what a loss has left to do), `message` (send and recv), "
    "`direct` (from device to device), `levels` (from device to device inside hosts) and `coded` "
    "(frames that devices make)"
)


def sample_name(family: str, kind: str) -> str:
    """The name that a scraper reads: of a histogram, what `_bucket`, `_sum`, `_count` follow."""
    return family + SUFFIXES.get(kind, "")


def entry(row: tuple[str, str, str, str, str, str]) -> str:
    family, kind, unit, help_text, labels, more = row
    text = section(f"`{sample_name(family, kind)}`", 3) + paragraph(f"{help_text} {more}") + "\n"
    text += item(f"type: {kind}") + item(f"unit: {unit or 'none, a plain number'}")
    return text + item(f"labels: {words(labels.split(', ')) if labels else 'none'}")


def page(_: str) -> str:
    text = head("Metrics", "`native/health/families.h`")
    text += TOP + section("Labels")
    text += "".join(item(line.format(paths=PATHS)) for line in LABELS)
    text += section("Of a rank").rstrip("\n") + "\n"
    text += "".join(entry(row) for row in _core.metric_rows(coordinator=False))
    text += section("Of a coordinator").rstrip("\n") + "\n"
    text += "\n" + paragraph(
        "`world` is the name of a job or an elastic group; `holdfast_build_info` is the same."
    )
    rows = [row for row in _core.metric_rows(coordinator=True) if row[0] != "holdfast_build"]
    text += "".join(entry(row) for row in rows)
    return text + section("Of a relay") + paragraph(RELAY)
