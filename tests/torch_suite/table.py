"""Runs PyTorch's `DistributedTest` with gloo and with Holdfast and sets them side by side.

Fails when Holdfast fails a test, or does not pass one that gloo passes in the same environment.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
BACKENDS = ("gloo", "holdfast")
# More than the whole suite takes with eight ranks on two cores.
SUITE_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class Setting:
    """World size, and the name by which the suite opens its tests."""

    ranks: int
    gate: str

    def __str__(self) -> str:
        return f"{self.ranks} ranks" + (", mpi gate" if self.gate == "mpi" else "")


SETTINGS = (
    *(Setting(2, "gloo"), Setting(3, "gloo"), Setting(4, "gloo"), Setting(8, "gloo")),
    Setting(3, "mpi"),
)
Outcomes = dict[str, dict[str, str]]


def run_suite(backend: str, setting: Setting, logs: Path) -> Outcomes:
    """Run the whole suite once.

    Returns
    -------
    dict
        The retarget program's rows, by test.
    """
    done = subprocess.run(
        [
            *(sys.executable, str(HERE / "retarget.py"), "--backend", backend),
            *("--gate", setting.gate, "--ranks", str(setting.ranks)),
            *("--log", str(logs / f"torch_suite-{backend}-{setting.gate}-{setting.ranks}.log")),
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=SUITE_TIMEOUT_S,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if not rows:
        raise SystemExit(f"{backend}, {setting}: the suite did not run")
    return {row["test"]: row for row in rows}


def shortfalls(gloo: Outcomes, holdfast: Outcomes) -> Iterator[str]:
    """Yield a line for every test that Holdfast should have passed."""
    for test, row in holdfast.items():
        passed_there = gloo.get(test, {}).get("outcome") == "passed"
        if row["outcome"] == "failed" or (row["outcome"] == "skipped" and passed_there):
            yield f"{test}: {row['outcome']}: {row['reason'].strip()}"


def counts(outcomes: Outcomes) -> str:
    found = Counter(row["outcome"] for row in outcomes.values())
    return ", ".join(f"{n} {kind}" for kind, n in sorted(found.items()))


def when() -> str:
    """Return today's date, and the commit where there is git."""
    asked = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    commit = f", commit {said.stdout.strip()}" if said.returncode == 0 else ""
    return f"{date.today().isoformat()}{commit}"


def markdown(results: dict[Setting, dict[str, Outcomes]], made: str) -> str:
    """Make the page: counts, then every test that ran somewhere, then why the others did not."""

    def pair(setting: Setting, test: str) -> list[str]:
        return [results[setting][backend][test]["outcome"] for backend in BACKENDS]

    lines = [
        "# PyTorch's own distributed tests",
        "",
        "`torch.testing._internal.distributed.distributed_test.DistributedTest` of torch 2.13",
        "(CPU), pointed at each backend by `tests/torch_suite/retarget.py`; the exit statuses of",
        f"all ranks count. Made by `make test-torch` on {made}.",
        "",
        "*mpi gate*: the suite opens the tests that it keeps for MPI. *out of reach*: no backend",
        "outside of torch's tree can pass it (DDP's logger calls all of them 'custom').",
        "",
        "| setting | gloo | holdfast |",
        "|---|---|---|",
    ]
    for setting, by_backend in results.items():
        lines.append(f"| {setting} | " + " | ".join(counts(by_backend[b]) for b in BACKENDS) + " |")
    first = next(iter(results.values()))["holdfast"]
    skipped = ["skipped"] * len(BACKENDS)
    ran = [name for name in sorted(first) if any(pair(s, name) != skipped for s in results)]
    lines += ["", "## Tests that ran", "", "gloo / holdfast; empty: skipped by both.", ""]
    lines.append("| test | " + " | ".join(str(s) for s in results) + " |")
    lines.append("|---|" + "---|" * len(results))
    for name in ran:
        pairs = [pair(s, name) for s in results]
        cells = ["" if p == skipped else " / ".join(p) for p in pairs]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "## Tests that ran nowhere, and the suite's reason", ""]
    why: dict[str, list[str]] = {}
    for name in sorted(set(first) - set(ran)):
        why.setdefault(first[name]["reason"], []).append(name)
    for reason, tests in sorted(why.items()):
        lines += textwrap.wrap(
            f"- {reason}: {', '.join(tests)}",
            width=100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the table, as Markdown, to this file")
    parser.add_argument("--logs", type=Path, default=Path("build/logs"))
    options = parser.parse_args()
    results: dict[Setting, dict[str, Outcomes]] = {}
    bad: list[str] = []
    for setting in SETTINGS:
        results[setting] = {b: run_suite(b, setting, options.logs) for b in BACKENDS}
        short = list(shortfalls(results[setting]["gloo"], results[setting]["holdfast"]))
        bad += [f"{setting}: {line}" for line in short]
        for backend in BACKENDS:
            print(f"{setting}: {backend}: {counts(results[setting][backend])}", flush=True)
    if options.out:
        options.out.write_text(markdown(results, when()))
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
