"""Runs real clients of torch.distributed with Holdfast beside gloo, and writes what happened.

    python tests/clients/run.py                          # all cases (about 15 minutes)
    python tests/clients/run.py --only deepspeed         # a client's, or those named, by commas
    python tests/clients/run.py --write                  # into docs/evidence/clients.md as well

Each client is installed from PyPI into an environment of its own under build/clients, at the
version that catalogue.py names; torch is this Python's where it is the right one. Holdfast is the
wheel of `make wheel` unless `--holdfast here` takes this Python's. Ends with status 1 when a case
does not do what the catalogue says is expected of Holdfast.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import environments
import page
from case import Case, execute, shortfall
from catalogue import CASES, CLIENTS

OUT = environments.CLIENTS / "out"
DOCS = environments.ROOT / "docs/evidence/clients.md"


def chosen(only: str) -> list[Case]:
    """Return the cases that were asked for; ends the program for a name that none has."""
    names = {name for name in only.split(",") if name}
    known = {case.name for case in CASES} | {client.name for client in CLIENTS}
    if unknown := names - known:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}; --list shows them")
    return [case for case in CASES if not names or {case.name, case.client} & names]


def show(cases: list[Case]) -> None:
    for case in cases:
        by = f"{case.ranks} ranks by {case.launcher}"
        print(f"{case.name:26} {by:26} {case.what}; expected: {case.expected}")


def run_case(case: Case, python: Path) -> page.Row:
    """Run a case with both backends, and tell it."""
    runs = {}
    for backend in ("gloo", "holdfast"):
        print(f"{case.name:26} {backend:9}", end=" ", flush=True)
        runs[backend] = execute(case, backend, python, OUT / f"{case.name}-{backend}")
        done = runs[backend]
        print(f"{done.seconds:4.0f} s  {done.became}{done.detail and f' ({done.detail})'}")
    bad = shortfall(case, runs["gloo"], runs["holdfast"])
    if bad:
        print(f"{case.name:26} NOT AS EXPECTED: {bad}")
        print(f"{'':26} logs: {OUT / case.name}-*/log")
    return page.Row(case, runs["gloo"], runs["holdfast"], bad)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="cases or clients, by commas")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument("--write", action="store_true", help=f"write {DOCS.name} in docs/evidence")
    parser.add_argument("--holdfast", choices=("wheel", "here"), default="wheel")
    options = parser.parse_args()
    cases = chosen(options.only)
    if options.list:
        show(cases)
        return 0
    begin = time.monotonic()
    lent = environments.borrowed()
    pythons, versions = {}, {}
    for client in CLIENTS:
        if client.name in {case.client for case in cases}:
            print(f"{client.name}: {', '.join(client.requirements)}", flush=True)
            python = environments.make(client.name, client.requirements, lent, options.holdfast)
            pythons[client.name] = python
            for package in ("torch", "holdfast", client.package):
                versions[package] = environments.version(python, package)
    rows = [run_case(case, pythons[case.client]) for case in cases]
    bad = [row for row in rows if row.bad]
    print(f"{len(rows)} cases, {len(bad)} not as expected; {time.monotonic() - begin:.0f} s")
    if options.write:
        command = "make test-clients" if not options.only else " ".join(["run.py", *sys.argv[1:]])
        DOCS.write_text(page.markdown(rows, versions, command))
        print(f"written: {DOCS.relative_to(environments.ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
