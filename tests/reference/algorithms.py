"""algorithms.md: the catalogue of algorithms, the ways and the reasons of the planner."""

from __future__ import annotations

import itertools
import math
import re
import textwrap

from holdfast import _core
from reference.markdown import code, head, item, paragraph, section, table
from reference.tree import root

TOP = """
A call goes one [way](#ways); where that is `schedule`, it runs one of these algorithms, message by
message. The cost model takes the one that it predicts to be fastest, `holdfast plan` says which and
why ([tuning.md](../operate/tuning.md)), and the option [`algorithm`](options.md#algorithm) names
one. Whatever is chosen, all ranks get the same bits.

Costs are those of the critical path, for n ranks and b bytes of payload at each: **messages** one
after the other, bytes that the busiest rank **sends**, bytes that it **reduces**. log n is
ceil(log2 n); p is the largest power of two that is at most n; x is 0 where n is a power of two,
else 1. Of messages that leave a rank at once, as those of `flat` do, each but the first counts
half. The model makes seconds of it all by a link's latency, bandwidth and rate of reduction.
"""

# The cost functions as formulas: messages, bytes sent, bytes reduced. `checked()` compares each
# with the function for many n and b, so that a formula that is wrong is not written.
PART = "(n - 1) / n b"
ALL = "(n - 1) b"
COSTS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("ring", "all_reduce"): ("2 (n - 1)", f"2 {PART}", PART),
    ("ring", "reduce_scatter"): ("n - 1", PART, PART),
    ("ring", "all_gather"): ("n - 1", PART, "0"),
    ("binomial_tree", "broadcast"): ("log n", "log n b", "0"),
    ("binomial_tree", "reduce"): ("log n", "log n b", "log n b"),
    ("flat", "all_reduce"): ("n / 2", ALL, ALL),
    ("flat", "reduce_scatter"): ("1", PART, PART),
    ("flat", "all_gather"): ("1", PART, "0"),
    ("flat", "broadcast"): ("n / 2", ALL, "0"),
    ("flat", "reduce"): ("1", ALL, ALL),
    ("flat", "gather"): ("1", PART, "0"),
    ("flat", "scatter"): ("1", PART, "0"),
    ("flat", "scan"): ("n / 2", ALL, ALL),
    ("flat", "exscan"): ("n / 2", ALL, ALL),
    ("halving_doubling", "all_reduce"): (
        "2 log p + 3 x",
        "2 (p - 1) / p b + 2 x b",
        "(p - 1) / p b + x b / 2",
    ),
    ("halving_doubling", "reduce_scatter"): (
        "log p + 2 x",
        "(p - 1) / p b + x b",
        "(p - 1) / p b + x b",
    ),
    ("halving_doubling", "all_gather"): ("log p + 2 x", f"{PART} + x b", "0"),
    ("forest", "all_reduce"): ("2 (n - 1)", f"2 {PART}", PART),
    ("forest", "reduce_scatter"): ("n - 1", PART, PART),
    ("forest", "all_gather"): ("n - 1", PART, "0"),
    ("forest", "broadcast"): ("n", "b", "0"),
    ("forest", "reduce"): ("n", "b", "b"),
    ("domain_exchange", "all_reduce"): ("n - 1", ALL, ALL),
    ("domain_exchange", "reduce_scatter"): ("n - 1", PART, PART),
    ("domain_exchange", "all_gather"): ("n - 1", PART, "0"),
    ("domain_exchange", "broadcast"): ("n - 1", ALL, "0"),
    ("domain_exchange", "reduce"): ("n - 1", ALL, ALL),
    ("domain_lanes", "all_reduce"): ("n - 1", ALL, ALL),
    ("domain_lanes", "broadcast"): ("n - 1", ALL, "0"),
    ("domain_lanes", "reduce"): ("n - 1", ALL, ALL),
    ("recursive_doubling", "all_reduce"): ("log p + 2 x", "(log p + x) b", "(log p + x) b"),
    ("bruck", "all_gather"): ("log n", PART, "0"),
    ("bruck", "all_to_all"): ("log n", "log n b / 2", "0"),
    ("double_tree", "all_reduce"): ("2 (log n + 8)", "2 (log n + 8) / 8 b", "b"),
    ("double_tree", "broadcast"): ("log n + 8", "(log n + 8) / 8 b", "0"),
    ("double_tree", "reduce"): ("log n + 8", "(log n + 8) / 8 b", "b"),
    ("scatter_allgather", "broadcast"): ("log n + n - 1", f"2 {PART}", "0"),
    ("pairwise", "all_to_all"): ("n - 1", PART, "0"),
    ("dissemination", "barrier"): ("log n", "0", "0"),
    ("direct_fold", "all_reduce"): ("n", f"2 {PART}", PART),
    ("direct_fold", "reduce_scatter"): ("n / 2", PART, PART),
    ("chain", "reduce"): ("n", "b", "b"),
    ("chain", "scan"): ("n - 1", "b", "b"),
    ("chain", "exscan"): ("n - 1", "b", "b"),
}

RANKS = (*range(2, 34), 48, 64, 100, 1000)
BYTES = (0, 1, 4096, 1 << 20, 3 << 25)


def doublings(n: int) -> int:
    return (n - 1).bit_length()


def value(formula: str, n: int, b: int) -> float:
    """A formula's value. What stands side by side is multiplied, as in ``2 log n``."""
    p = 1 << (n.bit_length() - 1)
    text = formula.replace("log n", "Ln").replace("log p", "Lp")
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)
    names = {"n": n, "b": b, "p": p, "x": int(p != n), "Ln": doublings(n), "Lp": doublings(p)}
    return float(eval(text, {"__builtins__": {}}, names))  # our own words


def checked(name: str, collective: str) -> tuple[str, str, str] | None:
    """The formulas of an algorithm, which equal what the program computes; None: it has none."""
    if _core.cost_terms(collective, name, 2, 1) is None:
        return None
    formulas = COSTS[name, collective]
    for n in RANKS:
        for b in BYTES:
            terms = _core.cost_terms(collective, name, n, b) or ()
            for formula, term in zip(formulas, terms, strict=True):
                mine = value(formula, n, b)
                if not math.isclose(mine, term, rel_tol=1e-9, abs_tol=1e-6):
                    raise ValueError(
                        f"{name} of {collective}, n = {n}, b = {b}: {formula} is {mine}, not {term}"
                    )
    return formulas


def about(name: str) -> str:
    """The first comment of the algorithm's file, as Markdown."""
    lines = []
    for line in (root() / "native/comm/algorithms" / f"{name}.cpp").read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    text = "\n".join(line for line in lines if not line.startswith("Why: "))
    blocks = []
    # Lines with an indent are a table: they stay as they are.
    for indented, group in itertools.groupby(text.splitlines(), lambda line: line.startswith("  ")):
        part = "\n".join(group)
        if indented:
            blocks.append(code(textwrap.dedent(part)))
        else:
            blocks += [paragraph(escaped(block)) for block in part.split("\n\n") if block.strip()]
    why = re.findall(r"docs/decisions/([\w-]+\.md)", "\n".join(lines))
    if why:
        links = (f"[{file[:4]}](../decisions/{file})" for file in why)
        blocks.append(paragraph(f"Why it is so: {', '.join(links)}."))
    return "\n".join(blocks)


def escaped(text: str) -> str:
    """Prose of a comment, with what Markdown would take for its own marked as code."""
    return re.sub(r"\b(\w+_\w+(?:\.\w+|\(\))?)", r"`\1`", text)


def cost_text(row: tuple) -> str:
    name, collective, *_ = row
    formulas = checked(name, collective)
    if formulas is None:
        return "as said above, by the levels of the fabric"
    messages, sent, reduced = formulas
    text = f"messages `{messages}`, sends `{sent}`"
    return text if reduced == "0" else f"{text}, reduces `{reduced}`"


def limits(row: tuple) -> str:
    _, _, _, encoded, equal, most, levels, ring, residual = row
    said = []
    if equal:
        said.append("only where it is named: all ranks' blocks must be equal")
    if most is not None:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
        said.append(f"chosen up to {size} of payload")
    if levels:
        said.append("chosen where several hosts, or other wide levels, have several ranks each")
    if encoded and residual:
        said.append("with a `residual`, too")
    if encoded and levels:
        said.append("not with a `residual`")
    if ring:
        said.append("only hops of a ring by rank leave a host")
    return "; ".join(said)


def entry(name: str, rows: list[tuple]) -> str:
    text = section(f"`{name}`", 3) + about(name) + "\n"
    text += item(f"source: {rows[0][2]}")
    for row in rows:
        cost = "" if row[3] else f": {cost_text(row)}"
        more = limits(row)
        text += item(f"`{row[1]}`{cost}" + (f" ({more})" if more else ""))
    return text


def catalogue(encoded: bool) -> str:
    by_name: dict[str, list[tuple]] = {}
    for row in _core.algorithm_rows():
        if row[3] == encoded:
            by_name.setdefault(row[0], []).append(row)
    return "".join(entry(name, rows) for name, rows in by_name.items())


# Where ranks are: (ranks, hosts, whether they share memory), and what that is called.
PLACES = (
    (2, 1, True, "2 ranks, 1 host"),
    (8, 1, True, "8 ranks, 1 host"),
    (8, 1, False, "8 ranks, 1 host, tcp"),
    (8, 8, False, "8 ranks, 8 hosts"),
    (32, 4, False, "32 ranks, 4 hosts"),
)
SIZES = ((4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB"))


def chosen() -> str:
    """What the planner answers, asked for some places and sizes."""
    collectives = sorted({row[1] for row in _core.algorithm_rows()})
    text = paragraph(
        "What `holdfast plan` says with the constants that Holdfast comes with, by the payload of "
        "a rank: a way of shared memory, in italics, or an algorithm. In brackets stands what a "
        "call is carried as, where that is another collective. A table of measurements, the "
        "option `plan`, overrides it."
    )
    for ranks, hosts, shared, title in PLACES:
        rows = []
        for collective in collectives:
            rows.append(
                (
                    f"`{collective}`",
                    *(answer(collective, ranks, hosts, shared, size) for size, _ in SIZES),
                )
            )
        text += section(title, 3) + table(("collective", *(size for _, size in SIZES)), rows)
    return text


def answer(collective: str, ranks: int, hosts: int, shared: bool, size: int) -> str:
    way, algorithm, carried, _, _ = _core.route(
        collective, ranks, hosts, shared, size, _core.merge_plans([])
    )
    name = f"*{way}*" if algorithm is None else f"`{algorithm}`"
    return f"{name} ({carried})" if carried else name


def page(_: str) -> str:
    text = head("Algorithms and ways", "`native/comm/algorithms` and `native/comm/plan/way.h`")
    text += TOP + section("Algorithms").rstrip("\n") + "\n" + catalogue(encoded=False)
    text += section("Algorithms for calls with a codec") + paragraph(
        "Such a call sends frames only ([codecs.md](codecs.md#what-happens)); the first that fits "
        "is taken."
    )
    text += catalogue(encoded=True)
    text += section("Ways") + "".join(item(f"`{n}`: {t}") for n, t in _core.way_rows())
    text += section("Reasons") + paragraph("What `holdfast plan` gives as the reason.") + "\n"
    text += "".join(item(f"{n}: {t}") for n, t in _core.reason_rows())
    return text + section("What is chosen") + chosen()
