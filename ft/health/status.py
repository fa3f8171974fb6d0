"""The page ``/status`` of a coordinator, or of a rank, as a program reads it."""

from __future__ import annotations

import ssl
import urllib.parse
from typing import Any

from holdfast.errors import ConfigError, HoldfastError, ProtocolError
from holdfast.ft.health.access import Access
from holdfast.ft.health.collect import locked, page
from holdfast.ft.health.evidence import Metrics, metrics_of, parsed

FORMAT = 1
_OPEN = Access()


def page_url(where: str, name: str) -> str:
    """Return the address of a page.

    Parameters
    ----------
    where : str
        ``"host:port"``, or an http or https URL of any page there.
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
    known = parts.scheme in ("http", "https")
    if not known or not parts.hostname or port is None or parts.username:
        raise ConfigError(
            f"address {where!r}; accepted: host:port, http://host:port or https://host:port"
        )
    return f"{parts.scheme}://{parts.netloc}/{name}"


def _pages(url: str) -> str:
    """The address of the pages of a URL, as `collect.page` takes it."""
    parts = urllib.parse.urlsplit(url)
    return f"https://{parts.netloc}" if parts.scheme == "https" else parts.netloc


def fetch(where: str, timeout_s: float = 5.0, access: Access = _OPEN) -> dict[str, Any]:
    """Return what ``/status`` says.

    Parameters
    ----------
    where : str
        ``"host:port"`` of the pages of a coordinator or a rank, or their URL.
    timeout_s : float
        Seconds to wait for the whole answer.
    access : Access
        With what.

    Returns
    -------
    dict
        The fields of docs/reference/status-json.md.

    Raises
    ------
    ConfigError
        When `where` is no address; when the page is not for who asks.
    HoldfastError
        When nothing answers there.
    ProtocolError
        When what answers is no Holdfast, or speaks another format.
    """
    url = page_url(where, "status")
    try:
        code, text = page(_pages(url), "/status", timeout_s, access)
    except ssl.SSLCertVerificationError as error:
        raise ConfigError(f"{url} is not believed: {error} (--ca FILE)") from None
    except OSError as error:
        raise HoldfastError(
            f"nothing answers at {url}: {error}. Start the coordinator with --http HOST:PORT, or "
            "the ranks with HOLDFAST_HTTP"
        ) from error
    if refused := locked(code):
        raise ConfigError(f"{url} {refused}")
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


def metrics(where: str, timeout_s: float = 5.0, access: Access = _OPEN) -> Metrics:
    """Return what ``/metrics`` says; nothing when it does not answer.

    Parameters
    ----------
    where : str
        As for :func:`fetch`.
    timeout_s : float
        Seconds to wait for the whole answer.
    access : Access
        With what.

    Returns
    -------
    Metrics
        By name and labels.
    """
    try:
        code, text = page(_pages(page_url(where, "")), "/metrics", timeout_s, access)
    except OSError:
        return Metrics({})
    return metrics_of(text) if code == 200 else Metrics({})
