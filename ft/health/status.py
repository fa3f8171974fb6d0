"""The page ``/status`` of a coordinator, or of a rank, as a program reads it."""

from __future__ import annotations

import urllib.parse
from typing import Any

from holdfast.errors import ConfigError, HoldfastError, ProtocolError
from holdfast.ft.health.collect import page
from holdfast.ft.health.evidence import Metrics, metrics_of, parsed

FORMAT = 1


def page_url(where: str, name: str) -> str:
    """Return the address of a page.

    Parameters
    ----------
    where : str
        ``"host:port"``, or an http URL of any page there.
    name : str
        Of the page, without the slash.

    Returns
    -------
    str
        The URL.

    Raises
    ------
    ConfigError
        When `where` is neither.
    """
    parts = urllib.parse.urlsplit(where if "://" in where else f"http://{where}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or port is None or parts.username:
        raise ConfigError(f"address {where!r}; accepted: host:port or http://host:port")
    return f"http://{parts.netloc}/{name}"


def fetch(where: str, timeout_s: float = 5.0) -> dict[str, Any]:
    """Return what ``/status`` says.

    Parameters
    ----------
    where : str
        ``"host:port"`` of the pages of a coordinator or a rank, or their URL.
    timeout_s : float
        Seconds to wait for the whole answer.

    Returns
    -------
    dict
        The fields of docs/reference/status-json.md.

    Raises
    ------
    ConfigError
        When `where` is no address.
    HoldfastError
        When nothing answers there.
    ProtocolError
        When what answers is no Holdfast, or speaks another format.
    """
    url = page_url(where, "status")
    try:
        code, text = page(urllib.parse.urlsplit(url).netloc, "/status", timeout_s)
    except OSError as error:
        raise HoldfastError(
            f"nothing answers at {url}: {error}. Start the coordinator with --http HOST:PORT, or "
            "the ranks with HOLDFAST_HTTP"
        ) from error
    if code != 200:
        raise ProtocolError(f"{url} answers with status {code}: no status page of Holdfast")
    try:
        status = parsed(text)
    except ValueError as error:
        raise ProtocolError(f"what answers at {url} is no Holdfast: {error}") from error
    if not isinstance(status, dict) or status.get("format") != FORMAT:
        spoken = status.get("format") if isinstance(status, dict) else None
        raise ProtocolError(f"{url} speaks format {spoken!r}; known here: {FORMAT}")
    return status


def metrics(where: str, timeout_s: float = 5.0) -> Metrics:
    """Return what ``/metrics`` says; nothing when it does not answer.

    Parameters
    ----------
    where : str
        As for :func:`fetch`.
    timeout_s : float
        Seconds to wait for the whole answer.

    Returns
    -------
    Metrics
        By name and labels.
    """
    try:
        code, text = page(urllib.parse.urlsplit(page_url(where, "")).netloc, "/metrics", timeout_s)
    except OSError:
        return Metrics({})
    return metrics_of(text) if code == 200 else Metrics({})
