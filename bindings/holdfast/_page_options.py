"""Arguments of commands that serve pages: where, and what locks them."""

from __future__ import annotations

import argparse

# Those that take the place of an option of the same name.
FILES = ("http", "http_credentials", "http_cert", "http_key")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of a command.
    """
    parser.add_argument(
        "--http",
        default=None,
        metavar="HOST:PORT",
        help="where to serve pages, such as /metrics (HOLDFAST_HTTP)",
    )
    parser.add_argument(
        "--http-credentials",
        default=None,
        metavar="FILE",
        help="who may read the pages: lines ROLE bearer TOKEN, or ROLE basic USER PASSWORD, with "
        "the role observer or admin (HOLDFAST_HTTP_CREDENTIALS)",
    )
    parser.add_argument(
        "--http-cert",
        default=None,
        metavar="FILE",
        help="certificate, in PEM, by which pages are served as https (HOLDFAST_HTTP_CERT)",
    )
    parser.add_argument(
        "--http-key",
        default=None,
        metavar="FILE",
        help="its key, in a file of mode 0600 (HOLDFAST_HTTP_KEY)",
    )
    parser.add_argument(
        "--http-insecure",
        action="store_true",
        help="serve pages on more than loopback without what locks them (HOLDFAST_HTTP_INSECURE)",
    )
