"""Collectors: ask the pages of a running job, all at once, and never wait for one that is mute.

A rank that does not answer is evidence like any other: nothing here raises for it.
"""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import ConfigError
from holdfast.ft.health.access import Access, split_address
from holdfast.ft.health.evidence import Look, Record, metrics_of, parsed, record_of_json

T = TypeVar("T")
R = TypeVar("R")

# A page of a healthy rank takes milliseconds; on a machine that is busy beyond reason, tenths. Who
# is mute for so long is asked again before it is called so.
ANSWER_S = 1.0
# 4096 ops are some 1.6 MB.
_MAX_PAGE_BYTES = 16 << 20
# At once: a scrape of ten thousand ranks takes seconds, and does not take all of the reader.
_THREADS = 32
_MAX_REFUSAL_BYTES = 1 << 16
_OPEN = Access()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a rank's pages are, and what its coordinator says of it."""

    where: str  # host:port, or https://host:port
    rank: int = -1
    host: str = ""
    world: str = ""


def page(
    where: str, path: str, timeout_s: float = ANSWER_S, access: Access = _OPEN
) -> tuple[int, str]:
    """Return status and text of a page.

    Parameters
    ----------
    where : str
        "host:port", or "https://host:port".
    path : str
        For example "/metrics".
    timeout_s : float
        Seconds, in all.
    access : Access
        With what.

    Returns
    -------
    tuple of int and str
        Status and body, also of an answer that is no success.

    Raises
    ------
    OSError
        When nobody answers in time.
    """
    deadline = time.monotonic() + timeout_s
    connection = access.connect(where, timeout_s)
    try:
        connection.request("GET", path, headers=access.headers())
        answer = connection.getresponse()
        most = _MAX_PAGE_BYTES if answer.status == 200 else _MAX_REFUSAL_BYTES
        parts: list[bytes] = []
        size = 0
        while size < most and (part := answer.read1(1 << 16)):
            parts.append(part)
            size += len(part)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} did not come whole within {timeout_s:g} s")
        return answer.status, b"".join(parts).decode(errors="replace")
    except ssl.SSLError:
        raise  # one of them is a ValueError, too
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()


def locked(status: int) -> str:
    """Return what is missing where a page is not for who asks; empty where it is something else.

    Parameters
    ----------
    status : int
        That the page answered with.

    Returns
    -------
    str
        For people.
    """
    if status == 401:
        return "asks for a credential that it knows: --credentials FILE (HOLDFAST_HTTP_CREDENTIALS)"
    return "is for the role admin: --credentials FILE with one" if status == 403 else ""


def at_once(
    work: Callable[[T], R], items: Sequence[T], limit_s: float, late: Callable[[T], R]
) -> list[R]:
    """Do something with all items in threads, for so long and no longer.

    Parameters
    ----------
    work : callable
        What is done with an item; does not raise.
    items : sequence
        The items.
    limit_s : float
        Seconds for all of them.
    late : callable
        What stands for an item that is not done by then.

    Returns
    -------
    list
        By item.
    """
    results: list[R | None] = [None] * len(items)
    waiting: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R]] = queue.SimpleQueue()
    for pair in enumerate(items):
        waiting.put(pair)

    def serve() -> None:
        while True:
            try:
                index, item = waiting.get_nowait()
            except queue.Empty:
                return
            done.put((index, work(item)))

    for _ in range(min(_THREADS, len(items))):
        threading.Thread(target=serve, daemon=True).start()
    deadline = time.monotonic() + limit_s
    for _ in items:
        try:
            index, result = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        results[index] = result
    return [late(item) if r is None else r for item, r in zip(items, results, strict=True)]


def look(where: str, with_record: bool = True, access: Access = _OPEN) -> Look:
    """Look at one rank.

    Parameters
    ----------
    where : str
        "host:port" of its pages.
    with_record : bool
        Fetch its flight record, too.
    access : Access
        With what.

    Returns
    -------
    Look
        What it said; `trouble` where it said nothing.
    """
    at = time.time_ns()
    try:
        _, health = page(where, "/healthz", access=access)
        _, ready = page(where, "/readyz", access=access)
        status, text = page(where, "/metrics", access=access)
    except ssl.SSLCertVerificationError as error:
        return Look(at, trouble=str(error), locked=f"is not believed: {error} (--ca FILE)")
    except OSError as error:
        return Look(at, trouble=str(error) or type(error).__name__)
    if refused := locked(status):
        return Look(at, trouble=refused, locked=refused)
    at = time.time_ns()
    record, refused = _record(where, access) if with_record else (None, "")
    return Look(at, metrics_of(text), record, health.strip(), ready.strip(), locked=refused)


def _record(where: str, access: Access) -> tuple[Record | None, str]:
    """A rank's flight record; None where it does not come: the rest is worth having."""
    try:
        status, text = page(where, "/flight", 2 * ANSWER_S, access)
        return record_of_json(text) if status == 200 else None, locked(status)
    except (OSError, ValueError):
        return None, ""


def look_at_all(
    addresses: Sequence[Address], with_records: bool = True, access: Access = _OPEN
) -> list[Look]:
    """Look at all ranks at once.

    Parameters
    ----------
    addresses : sequence of Address
        Where they are.
    with_records : bool
        Fetch flight records, too.
    access : Access
        With what.

    Returns
    -------
    list of Look
        By address.
    """
    rounds = -(-len(addresses) // _THREADS)
    return at_once(
        lambda address: look(address.where, with_records, access),
        addresses,
        2 * ANSWER_S * max(1, rounds),
        lambda address: Look(time.time_ns(), trouble="no answer in time"),
    )


def targets_of(text: str) -> list[Address]:
    """Return the ranks that a coordinator's /targets names.

    Parameters
    ----------
    text : str
        JSON of Prometheus's http_sd.

    Returns
    -------
    list of Address
        Of the ranks; the coordinator itself is left out.

    Raises
    ------
    ValueError
        When it is something else.
    """
    data = parsed(text)
    if not isinstance(data, list):
        raise ValueError("no list of targets")
    found = []
    for group in data:
        labels = group.get("labels", {}) if isinstance(group, dict) else {}
        if labels.get("role") != "rank":
            continue
        rank = str(labels.get("rank", ""))
        for where in group.get("targets", ()):
            number = int(rank) if rank.isdigit() else -1
            host, world = str(labels.get("host", "")), str(labels.get("world", ""))
            scheme = "https://" if labels.get("__scheme__") == "https" else ""
            found.append(Address(f"{scheme}{where}", number, host, world))
    return found


def targets(url: str, access: Access = _OPEN) -> list[Address]:
    """Ask a coordinator for its ranks.

    Parameters
    ----------
    url : str
        ``http://host:port/targets``, or with https; the path may be missing.
    access : Access
        With what.

    Returns
    -------
    list of Address
        Of the ranks.

    Raises
    ------
    OSError, ValueError
        When it does not answer in time; when it answers something else.
    """
    where = pages_of(url)
    status, text = page(where, "/targets", access=access)
    if status != 200:
        shown = url_of(where, "targets")
        raise ValueError(
            f"{shown} " + (locked(status) or f"answers {status}: no coordinator is there")
        )
    return targets_of(text)


def pages_of(url: str) -> str:
    """Return the host:port of an http URL, or of what stands for one; ConfigError else.

    Of an https URL the scheme stays.
    """
    where = url.removeprefix("http://").removesuffix("/").removesuffix("/targets")
    try:
        split_address(where)
    except ValueError:
        raise ConfigError(
            f"{url!r}; accepted: host:port, http://host:port/targets, https://host:port/targets"
        ) from None
    return where


def url_of(where: str, name: str) -> str:
    """Return the URL of a page of the pages at an address."""
    return f"{'' if where.startswith('https://') else 'http://'}{where}/{name}"


def reach(where: str) -> str:
    """Return why nobody takes a connection there; empty when somebody does.

    Parameters
    ----------
    where : str
        "host:port", or "host:port/NAME" as the option `coordinator` has it, or several host:port
        with commas between: then it is enough that one of them takes a connection.

    Returns
    -------
    str
        The system's word for it; of several addresses, each with its own.
    """
    places = where.removeprefix("holdfast://").partition("/")[0].split(",")
    troubles = []
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), ANSWER_S):
                return ""
        except (OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            troubles.append(why if len(places) == 1 else f"{place}: {why}")
    return "; ".join(troubles)


def stack_of(where: str, access: Access = _OPEN) -> str:
    """Return the stacks of a rank's threads; empty where they cannot be had."""
    try:
        status, text = page(where, "/stack", access=access)
    except OSError:
        return ""
    return text if status == 200 else ""


def numbered(addresses: Iterable[Address], looks: Iterable[Look]) -> list[int]:
    """Return each address's rank: as its coordinator, or itself, says; -1 for unknown."""
    ranks = []
    for address, seen in zip(addresses, looks, strict=True):
        own = -1 if seen.metrics is None else int(seen.metrics.total("holdfast_rank"))
        ranks.append(address.rank if address.rank >= 0 else own)
    return ranks
