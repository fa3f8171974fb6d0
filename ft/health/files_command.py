"""``holdfast health``: the alert rules and the dashboard that come with Holdfast."""

from __future__ import annotations

import argparse
import sys
from importlib import resources

RULES = "alerts.yml"
DASHBOARD = "dashboard.json"

EXAMPLES = """examples:
  holdfast health --rules > /etc/prometheus/holdfast.yml     and name it under rule_files
  holdfast health --dashboard > holdfast.json                and import it in Grafana
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--rules",
        dest="file",
        action="store_const",
        const=RULES,
        help="print alert rules for Prometheus",
    )
    what.add_argument(
        "--dashboard",
        dest="file",
        action="store_const",
        const=DASHBOARD,
        help="print a dashboard for Grafana",
    )
    parser.set_defaults(run=run)


def text_of(name: str) -> str:
    """Return one of the files.

    Parameters
    ----------
    name : str
        `RULES` or `DASHBOARD`.

    Returns
    -------
    str
        What is in it.
    """
    return (resources.files("holdfast.ft.health") / name).read_text(encoding="utf-8")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0.
    """
    sys.stdout.write(text_of(arguments.file))
    return 0
