"""``holdfast admin``: what an operator sees of a coordinator's jobs, and does to them."""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import ssl
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import _core, _one_host, _token
from holdfast.errors import ConfigError, HoldfastError
from holdfast.ft.health import access
from holdfast.ft.health.status import page_url

EXAMPLES = """examples:
  holdfast coordinator --secret-file run7.secret --http 127.0.0.1:9400
  export HOLDFAST_COORDINATOR_PAGES=127.0.0.1:9400
  (umask 077; holdfast token new --secret-file run7.secret --run run7 --role admin > ops.token)

  holdfast admin jobs --token-file ops.token
  holdfast admin members run7/elastic --token-file ops.token --json
  holdfast admin drain run7/elastic 3 --why "its host is replaced" --token-file ops.token
  holdfast admin kick run7/elastic 3 --token-file ops.token       at once, also where it hangs
  holdfast admin pause run7/elastic --at-most 900 --token-file ops.token
  holdfast admin resume run7/elastic --token-file ops.token
  holdfast admin revoke alice.token --credentials pages.credentials
Who acts needs a credential: a line with the role admin in the coordinator's --http-credentials, or
a token of the role admin, which acts on its run. Observers see jobs and members.
"""
VARIABLE = "HOLDFAST_COORDINATOR_PAGES"
_ANSWER_S = 15.0
_KICK_S = 30.0
_DRAIN_S = 600.0
_PAUSE_S = 3600.0
_LONGEST_DRAIN_S = 24 * 3600.0
_LONGEST_PAUSE_S = 7 * 24 * 3600.0
_POLL_S = 0.1
# How long after its own time a coordinator may say that a drain came to nothing.
_GRACE_S = 5.0
_MOST_BYTES = 16 << 20
Fields = dict[str, Any]


class _Refused(HoldfastError):
    """Nothing was done, or nobody answered."""


@dataclass(frozen=True, slots=True)
class _Pages:
    """Of a coordinator, and with what they are asked."""

    url: str
    access: access.Access

    def ask(self, path: str, body: Fields | None = None) -> Fields:
        """Get a page, or with a body have it act."""
        parts = urllib.parse.urlsplit(page_url(self.url, ""))
        where = f"https://{parts.netloc}" if parts.scheme == "https" else parts.netloc
        try:
            code, text = self._exchange(where, path, body)
        except ssl.SSLCertVerificationError as error:
            raise _Refused(f"{self.url} is not believed: {error} (--ca FILE)") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _Refused(
                f"nothing answers at {self.url}: {error}. Start the coordinator with --http "
                "HOST:PORT, and say where with --url"
            ) from None
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if code == 200 and isinstance(said, dict):
            return said
        why = said.get("error") if isinstance(said, dict) else None
        raise _Refused(f"{self.url}: {why or text.strip() or code}{_hint(code)}")

    def _exchange(self, where: str, path: str, body: Fields | None) -> tuple[int, str]:
        connection = self.access.connect(where, _ANSWER_S)
        try:
            headers = self.access.headers()
            if body is None:
                connection.request("GET", path, headers=headers)
            else:
                headers["Content-Type"] = "application/json"
                connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES).decode(errors="replace")
        finally:
            connection.close()

    def members(self, job: str) -> Fields:
        return self.ask(f"/admin/members?job={urllib.parse.quote(job, safe='')}")


def _hint(code: int) -> str:
    if code == 401:
        return "; accepted: --credentials FILE or --token-file FILE"
    return "; what answers is no coordinator's pages" if code == 404 else ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    actions = parser.add_subparsers(dest="action", required=True)
    jobs = actions.add_parser("jobs", help="list the jobs and groups, with their quotas")
    members = actions.add_parser("members", help="list the members of one, and who waits")
    kick = actions.add_parser("kick", help="have a member out at once, also where it hangs")
    drain = actions.add_parser("drain", help="have a member leave at its next step boundary")
    pause = actions.add_parser("pause", help="have the members wait at their next step boundary")
    resume = actions.add_parser("resume", help="have them go on")
    revoke = actions.add_parser("revoke", help="let nobody in by a token any more, nor stay")
    for action in (members, kick, drain, pause, resume):
        action.add_argument("job", metavar="NAME", help="of a job or group, as `jobs` shows it")
    for action, limit in ((kick, _KICK_S), (drain, _DRAIN_S)):
        action.add_argument("rank", type=int, metavar="RANK", help="of the member")
        action.add_argument("--why", default="", metavar="TEXT", help="what the member is told")
        action.add_argument(
            "--timeout",
            type=float,
            default=limit,
            metavar="S",
            help=f"seconds until this is given up ({limit:.0f})",
        )
    pause.add_argument(
        "--at-most",
        type=float,
        default=_PAUSE_S,
        metavar="S",
        help=f"seconds after which they go on by themselves ({_PAUSE_S:.0f})",
    )
    revoke.add_argument(
        "token", metavar="TOKEN", help="its serial, or the file that has the token itself"
    )
    for action in (jobs, members, kick, drain, pause, resume, revoke):
        _add_access(action)
    parser.set_defaults(run=run)


def _add_access(action: argparse.ArgumentParser) -> None:
    action.add_argument("--json", action="store_true", help="for programs")
    action.add_argument(
        "--url",
        default=None,
        metavar="HOST:PORT",
        help="of the coordinator's pages, or http:// or https:// and that (HOLDFAST_"
        "COORDINATOR_PAGES)",
    )
    action.add_argument(
        "--token-file",
        default="",
        metavar="FILE",
        help="with a token of the role admin, or observer, that the coordinator's secret has made",
    )
    access.add_arguments(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0; 1 when the coordinator refused, did not do it in time, or does not answer.
    """
    actions: dict[str, Callable[[_Pages, argparse.Namespace], Fields]] = {
        "jobs": _jobs,
        "members": _members,
        "kick": _kick,
        "drain": _drain,
        "pause": _pause,
        "resume": _resume,
        "revoke": _revoke,
    }
    pages = _pages_of(arguments)
    try:
        done = actions[arguments.action](pages, arguments)
    except _Refused as error:
        if arguments.json:
            print(json.dumps({"done": False, "error": str(error)}))
        print(f"holdfast admin: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(done, indent=1))
    return 0


def _pages_of(arguments: argparse.Namespace) -> _Pages:
    url = os.environ.get(VARIABLE, "") if arguments.url is None else arguments.url
    if not url:
        raise ConfigError(
            f"where are the coordinator's pages? Accepted: --url HOST:PORT or {VARIABLE}, what "
            "`holdfast coordinator --http HOST:PORT` serves"
        )
    page_url(url, "")  # says what is accepted
    if not arguments.token_file:
        return _Pages(url, access.access_of(arguments))
    if arguments.credentials is not None:
        raise ConfigError("--token-file and --credentials; accepted: one of the two")
    arguments.credentials = ""
    parts = urllib.parse.urlsplit(page_url(url, ""))
    host = parts.hostname or ""
    if parts.scheme != "https" and not (host == "localhost" or _one_host.is_loopback(host)):
        raise ConfigError(
            f"--token-file with {url}: a token is not sent in the clear; accepted: https://, or an "
            "address of this host"
        )
    tls = access.access_of(arguments).tls
    return _Pages(url, access.Access(f"Bearer {_token_in(Path(arguments.token_file))}", tls))


def _token_in(path: Path) -> str:
    try:
        mode = path.stat().st_mode & 0o777
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {path}: {error}") from None
    if mode & 0o077:
        raise ConfigError(
            f"--token-file {path}: others may use it (mode {mode:04o}); accepted: 0600 or 0400"
        )
    _core.token_serial(text)  # says what is wrong with it
    return text


def _check_seconds(name: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 < value <= most):
        raise ConfigError(f"--{name} {value}; accepted: seconds, above 0 and up to {most:.0f}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [list(head), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip())


def _jobs(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    said = pages.ask("/admin/jobs")
    if arguments.json:
        return said

    def used(job: Fields, what: str) -> str:
        quota = job["quota"]
        limit = quota[what]
        return f"{quota[what + '_used']}/{'-' if limit is None else limit}"

    rows = [
        (
            job["name"],
            str(job["epoch"]),
            f"{job['present']}/{job['ranks']}",
            str(job["waiting"]),
            job["paused"],
            used(job, "members"),
            used(job, "groups"),
            job["blocked"],
        )
        for job in said["jobs"]
    ]
    _table(
        ("NAME", "EPOCH", "RANKS", "WAITING", "PAUSED", "MEMBERS", "GROUPS", "BLOCKED"),
        rows,
    )
    return said


def _members(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    said = pages.members(arguments.job)
    if arguments.json:
        return said
    rows = [
        (str(m["rank"]), m["member"], m["host"], m["address"], m["token"], m["order"])
        for m in said["members"]
    ]
    rows += [("lobby", m["member"], m["host"], m["address"], m["token"], "") for m in said["lobby"]]
    _table(("RANK", "MEMBER", "HOST", "ADDRESS", "TOKEN", "ASKED FOR"), rows)
    return said


def _member_at(said: Fields, rank: int) -> Fields | None:
    return next((m for m in said["members"] if m["rank"] == rank), None)


def _send_away(pages: _Pages, arguments: argparse.Namespace, body: Fields) -> Fields:
    """Ask for it, and wait until the member is out, or will not be."""
    job, rank, action = arguments.job, arguments.rank, arguments.action
    before = _member_at(pages.members(job), rank)
    pages.ask(f"/admin/{action}", {"job": job, "rank": rank, "why": arguments.why, **body})
    give_up = time.monotonic() + arguments.timeout + _GRACE_S
    never = threading.Event()
    while True:
        said = pages.members(job)
        now = _member_at(said, rank)
        if before is None or now is None or now["member"] != before["member"]:
            break
        if not now["order"] or time.monotonic() > give_up:
            raise _Refused(_not_out(arguments, said))
        never.wait(_POLL_S)
    if not arguments.json:
        text = {"kick": "is out", "drain": "has left at a step boundary"}[action]
        print(f"{job}: rank {rank} {text}; epoch {said['epoch']}, {len(said['members'])} members")
    return {"done": True, "action": action, "job": job, "rank": rank, "epoch": said["epoch"]}


def _not_out(arguments: argparse.Namespace, said: Fields) -> str:
    text = f"rank {arguments.rank} is still a member of {arguments.job}"
    if said["blocked"]:
        return f"{text}: {said['blocked']}"
    if arguments.action == "drain":
        return (
            f"{text}, and nothing has changed: the members reached no step boundary within "
            f"{arguments.timeout:g} s (`advance()` is one); `kick` does not wait for any"
        )
    return f"{text} after {arguments.timeout:g} s"


def _kick(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    _check_seconds("timeout", arguments.timeout, _LONGEST_DRAIN_S)
    return _send_away(pages, arguments, {})


def _drain(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    _check_seconds("timeout", arguments.timeout, _LONGEST_DRAIN_S)
    return _send_away(pages, arguments, {"timeout_s": arguments.timeout})


def _pause(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    _check_seconds("at-most", arguments.at_most, _LONGEST_PAUSE_S)
    pages.ask("/admin/pause", {"job": arguments.job, "at_most_s": arguments.at_most})
    if not arguments.json:
        print(
            f"{arguments.job}: waits at its next step boundary, until `holdfast admin resume` or "
            f"for {arguments.at_most:g} s"
        )
    return {"done": True, "action": "pause", "job": arguments.job}


def _resume(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    pages.ask("/admin/resume", {"job": arguments.job})
    if not arguments.json:
        print(f"{arguments.job}: goes on")
    return {"done": True, "action": "resume", "job": arguments.job}


def _revoke(pages: _Pages, arguments: argparse.Namespace) -> Fields:
    serial = _token.serial_of(arguments.token)
    pages.ask("/admin/revoke", {"serial": serial})
    if not arguments.json:
        print(f"token {serial}: revoked")
    return {"done": True, "action": "revoke", "serial": serial}
