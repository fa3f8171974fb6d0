"""The page ``/status`` of a coordinator, or of a rank, as a program reads it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from holdfast.errors import ConfigError, HoldfastError, ProtocolError

FORMAT = 1
# A page of ten thousand ranks is 200 KB; whoever sends more is none of ours.
_MAX_BYTES = 8 << 20


def page_url(where: str, page: str) -> str:
    """Return the address of a page.

    Parameters
    ----------
    where : str
        ``"host:port"``, or an http URL of any page there.
    page : str
        Its name, without the slash.

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
    return f"http://{parts.netloc}/{page}"


def fetch(where: str, timeout_s: float = 5.0) -> dict[str, Any]:
    """Return what ``/status`` says.

    Parameters
    ----------
    where : str
        ``"host:port"`` of the pages of a coordinator or a rank, or their URL.
    timeout_s : float
        Seconds to wait for each part of the answer.

    Returns
    -------
    dict
        The fields of docs/health.md.

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
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            text = answer.read(_MAX_BYTES)
    except urllib.error.HTTPError as error:
        raise ProtocolError(
            f"{url} answers with status {error.code}: no status page of Holdfast"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise HoldfastError(
            f"nothing answers at {url}: {reason}. Start the coordinator with --http HOST:PORT, or "
            "the ranks with HOLDFAST_HTTP"
        ) from error
    try:
        status = json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"what answers at {url} is no Holdfast: {error}") from error
    if not isinstance(status, dict) or status.get("format") != FORMAT:
        spoken = status.get("format") if isinstance(status, dict) else None
        raise ProtocolError(f"{url} speaks format {spoken!r}; known here: {FORMAT}")
    return status
