"""The status page in a real browser, and its JSON: what they show is what happened."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from health_jobs import Job
from health_ranks import await_file, page, scrape, total
from ranks import kill
from waiting import eventually

chromium = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no chromium here (Debian package chromium)"
)
HOSTILE = "<b onclick>h</b>&amp;"
MOST_PICTURE_BYTES = 200 << 10


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path)
    yield opened
    opened.close()


def row(rank: int) -> str:
    return f"document.querySelector('.ranks tr[data-rank=\"{rank}\"]')"


def states(browser: Browser) -> list[str]:
    text = "[...document.querySelectorAll('.ranks tbody tr')].map((row) => row.dataset.state)"
    found: list[str] = browser.value(text)
    return found


@chromium
def test_a_killed_rank_turns_red_within_two_seconds(tmp_path: Path, browser: Browser) -> None:
    """At the default heartbeat; its picture is that of docs/operate/status-page.md."""
    env = {"HOLDFAST_HOST_ID": "node-a", "UNPROTECTED": "<i>no keeper</i>"}
    with Job(tmp_path, "work_until_stopped", 4, **env) as job:
        browser.open(f"http://{job.pages}/")
        browser.until("document.querySelectorAll('.ranks tr.well').length === 4")
        assert states(browser) == ["well"] * 4
        assert browser.value("document.querySelector('.far').hidden")
        browser.until("!document.querySelector('.unprotected').hidden")
        (told,) = browser.value(
            "[...document.querySelectorAll('.unprotected li')].map((item) => item.textContent)"
        )
        assert told.startswith("rank 0 on node-a: for 4")
        assert ": <i>no keeper</i>; keepers have step 7, " in told
        # All wait for the last rank: its column is the darkest, and it is named.
        browser.until("document.querySelector('.stragglers').textContent.startsWith('rank 3 on')")
        heat = "(cell) => Number(cell.style.getPropertyValue('--heat'))"
        browser.until(f'({heat})(document.querySelector(\'td[data-rank="0"][data-peer="3"]\'))>.4')

        kill(job.ranks[2])
        passed = browser.until(f"{row(2)}.classList.contains('bad')", timeout_s=10)
        assert passed < 2.0, f"red after {passed:.2f} s"
        colour = "getComputedStyle(document.querySelector('tr.bad .state')).color"
        assert browser.value(colour) == "rgb(194, 32, 26)"
        browser.until(f"{row(2)}.querySelector('.state').textContent === 'lost: died'")
        browser.until("document.querySelector('#events .lost').textContent.includes('rank 2')")
        assert "epoch 2, 3 of 4 ranks" in browser.value(
            "document.querySelector('.facts').textContent"
        )
        assert browser.value("document.querySelectorAll('.epochs .dot').length") == 2
        assert browser.value("document.querySelectorAll('.epochs .dot.lost').length") == 1

        browser.ask("Emulation.setDeviceMetricsOverride", width=1280, height=900,
                    deviceScaleFactor=1, mobile=False)  # fmt: skip
        browser.picture(tmp_path / "page.png")
        picture = (tmp_path / "page.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < MOST_PICTURE_BYTES
        assert not browser.trouble
        job.stop(but=(2,))


@chromium
def test_the_page_shows_what_the_metrics_say(tmp_path: Path, browser: Browser) -> None:
    """A host that has a name like markup stays text."""
    env = {"HOLDFAST_TRANSPORTS": "tcp", "HOLDFAST_HOST_ID": HOSTILE, "HOLDFAST_TRUNK": "on"}
    with Job(tmp_path, "work_and_rest", 3, **env) as job:
        for r in range(3):
            await_file(tmp_path / f"rests.{r}")
        before = [scrape(where) for where in job.where]
        browser.open(f"http://{job.pages}/")
        browser.until("document.body.dataset.loaded")
        for r in range(3):
            ops = total(before[r], "holdfast_ops_total")
            assert ops >= 30
            browser.until(f"{row(r)}?.querySelector('[data-ops]').dataset.ops === '{ops:.0f}'")

        def caught_up() -> dict[str, Any] | None:
            """Cells that were sent after that look; heartbeats are counted all the time."""
            found: dict[str, Any] = browser.value(
                "Object.fromEntries([...document.querySelectorAll('.links td[data-rank]')]"
                ".map((cell) => [cell.dataset.rank + cell.dataset.peer, {...cell.dataset}]))"
            )
            for key, cell in found.items():
                labels = (f'peer="{key[1]}"', 'direction="sent"')
                least = total(before[int(key[0])], "holdfast_link_bytes_total", *labels)
                if float(cell["sent"]) < least:
                    return None
            return found

        cells = eventually(caught_up)
        after = [scrape(where) for where in job.where]
        assert set(cells) == {"01", "02", "10", "12", "20", "21"}
        for key, cell in cells.items():
            rank, peer = int(key[0]), key[1]
            label = f'peer="{peer}"'
            waited = total(before[rank], "holdfast_peer_wait_seconds_total", label)
            assert float(cell["waitS"]) == pytest.approx(waited, abs=1e-6)
            for name in ("sent", "received"):
                labels = (label, f'direction="{name}"')
                least = total(before[rank], "holdfast_link_bytes_total", *labels)
                most = total(after[rank], "holdfast_link_bytes_total", *labels)
                assert least <= float(cell[name]) <= most
        # Thirty times a tensor at least, to two ranks; and they all waited for the last one.
        assert sum(float(cell["sent"]) for cell in cells.values()) > 30 * 2 * 4 * 50_000
        assert float(cells["02"]["waitS"]) > 0.2
        assert browser.value("document.querySelectorAll('.ranks b').length") == 0
        assert browser.value(f"{row(0)}.cells[2].textContent") == HOSTILE
        assert browser.value("document.title") == "Holdfast"
        look_at_far_links(browser)
        look_is_good(browser)
        job.stop()


def look_at_far_links(browser: Browser) -> None:
    """All links are trunks here, and each is told by both of its ranks."""
    rows = "[...document.querySelectorAll('.far tbody tr')]"
    assert not browser.value("document.querySelector('.far').hidden")
    assert set(browser.value(f"{rows}.map((row) => row.dataset.rank + row.dataset.peer)")) == {
        *("01", "02", "10", "12", "20", "21")
    }
    first = browser.value(f"[...{rows}[0].cells].map((cell) => cell.textContent)")
    assert first[1:3] == ["well", "direct"]
    assert first[3] in ("1", "2", "3", "4")
    assert first[5].endswith(" ms")
    assert first[8] == "0"


def look_is_good(browser: Browser) -> None:
    """Light and dark, desk and phone; nothing from elsewhere, no script that fails."""
    back = "getComputedStyle(document.body).backgroundColor"
    light = browser.value(back)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.ask("Emulation.setEmulatedMedia", features=dark)
    assert browser.value(back) != light
    browser.ask("Emulation.setDeviceMetricsOverride", width=390, height=844,
                deviceScaleFactor=2, mobile=True)  # fmt: skip
    browser.until("innerWidth === 390")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    origins = "performance.getEntriesByType('resource').map((e) => new URL(e.name).origin)"
    assert set(browser.value(origins)) == {browser.value("location.origin")}
    assert not browser.trouble


def test_rank_zero_keeps_the_board_where_there_is_no_coordinator(tmp_path: Path) -> None:
    with Job(tmp_path, "work_until_stopped", 3, coordinator=False) as job:
        code, text = page(job.where[0], "/")
        assert (code, text[:15]) == (200, "<!doctype html>")
        heard = job.heard()
        assert [rank["state"] for rank in heard["ranks"]] == ["well"] * 3
        assert [rank["http"] for rank in heard["ranks"]] == job.where
        # Which links have anything to tell is chance; every rank has told of some.
        eventually(lambda: {link["rank"] for link in job.world()["links"]} == {0, 1, 2})
        eventually(lambda: [s["rank"] for s in job.world()["stragglers"]] == [2])
        # The others know who lives, and their own numbers.
        status = json.loads(page(job.where[1], "/status")[1])
        assert status["role"] == "rank"
        (world,) = status["worlds"]
        assert [("ops" in rank, rank["state"]) for rank in world["ranks"]] == [
            *((False, "well"), (True, "well"), (False, "well"))
        ]
        kill(job.ranks[2])
        lost = eventually(lambda: r if (r := job.world()["ranks"][2])["state"] == "lost" else None)
        assert lost["cause"] == "died"
        job.stop(but=(2,))


def test_the_coordinator_tells_silence_joins_and_the_end(tmp_path: Path) -> None:
    with Job(tmp_path, "work_until_stopped", 2) as job:
        heard = job.heard()
        assert [rank["state"] for rank in heard["ranks"]] == ["well"] * 2
        assert all(0 <= rank["heard_s"] < 5 for rank in heard["ranks"])
        assert heard["name"].startswith("job/")
        (began,) = job.status()["events"]
        assert (began["kind"], began["ranks"], began["count"]) == ("began", [0, 1], 2)
        assert abs(began["time_s"] - time.time()) < 600
        # It is asked to decide, and cannot prove the death.
        job.ranks[1].send_signal(signal.SIGSTOP)
        eventually(lambda: job.world()["ranks"][1]["state"] in ("silent", "lost"))
        job.ranks[1].send_signal(signal.SIGCONT)
        kill(job.ranks[1])
        eventually(lambda: job.world()["ranks"][1]["state"] == "lost")
        job.stop(but=(1,))
        ended = eventually(lambda: s if not (s := job.status())["worlds"] else None)
        assert ended["events"][-1]["kind"] == "ended"
