"""Alert rules and dashboard: each alert fires on its fault and on no other; all names exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from health_jobs import Job, Prometheus
from ranks import kill
from waiting import eventually

from holdfast.ft.health.files_command import DASHBOARD, RULES, text_of

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="waits for promtool (Debian package prometheus)"
)

DOCS = Path(__file__).resolve().parents[3] / "docs/reference/metrics.md"
ALERTS = {rule["alert"] for rule in yaml.safe_load(text_of(RULES))["groups"][0]["rules"]}


def rank(number: int, more: str = "") -> str:
    """Labels of a rank's series."""
    return f'{{rank="{number}",instance="a:{number}",role="rank",world="job",host="h"{more}}}'


def healthy() -> dict[str, str]:
    """Forty minutes of four ranks and a coordinator that are well, a sample each 15 s."""
    series = {
        'up{role="coordinator",instance="c:1"}': "1x160",
        'holdfast_coordinator_ranks{world="job",instance="c:1"}': "4x160",
        'holdfast_coordinator_members{world="job",instance="c:1"}': "4x160",
        'holdfast_coordinator_waiting{world="job",instance="c:1"}': "0x160",
        'holdfast_coordinator_blocked{world="job",instance="c:1"}': "0x160",
    }
    for r in range(4):
        series |= {
            f"up{rank(r)}": "1x160",
            f"holdfast_members{rank(r)}": "4x160",
            f"holdfast_queue_depth{rank(r)}": "1x160",
            "holdfast_ops_total" + rank(r, ',collective="all_reduce",path="flat"'): "0+1500x160",
            "holdfast_recovery_seconds_sum" + rank(r): "0x160",
            "holdfast_recovery_seconds_count" + rank(r): "0x160",
            "holdfast_build_info" + rank(r, ',version="0.1.0"'): "1x160",
        }
        age = "holdfast_state_age_seconds" + rank(r, ',state="committed"')
        series[age] = "5 35x159"
        for cause in ("died", "silent", "cut", "left"):
            series["holdfast_losses_total" + rank(r, f',cause="{cause}"')] = "0x160"
        for cause in ("PeerLost", "Timeout", "Aborted"):
            series["holdfast_ops_failed_total" + rank(r, f',cause="{cause}"')] = "0x160"
        for peer in range(4):
            if peer == r:
                continue
            labels = rank(r, f',peer="{peer}"')
            series["holdfast_peer_wait_seconds_total" + labels] = "0+0.5x160"
            series["holdfast_link_rtt_seconds" + labels] = "0.0001x160"
            series["holdfast_link_retransmits_total" + labels] = "0+1x160"
    return series


@dataclass(frozen=True)
class Fault:
    """What is not as in a healthy job, and which alerts that brings."""

    series: dict[str, str]
    fires: dict[str, int]  # alert: how many of it
    gone: tuple[str, ...] = field(default=())  # series whose text has one of these
    minute: int = 30


def lost(cause: str, at: int, count: int = 1) -> dict[str, str]:
    """Counters of the three ranks that stay: `count` losses from sample `at` on."""
    values = f"0x{at} {count}x{160 - at}"
    return {
        "holdfast_losses_total" + rank(r, f',cause="{cause}"'): values for r in range(3)
    }  # fmt: skip


def every(name: str, more: str, values: str, ranks: int = 4) -> dict[str, str]:
    return {f"{name}{rank(r, more)}": values for r in range(ranks)}


COORDINATOR = '{world="job",instance="c:1"}'
FAULTS = {
    "nothing": Fault({}, {}),
    "a rank died two minutes ago": Fault(lost("died", 112), {"HoldfastRankLost": 1}),
    "a rank died long ago": Fault(lost("died", 60), {}),
    "a rank was silent, and voted out": Fault(lost("silent", 112), {"HoldfastRankLost": 1}),
    "a rank left": Fault(lost("left", 112), {}),
    "four ranks died in turn": Fault(
        dict.fromkeys(lost("died", 1), "0x20 1x20 2x20 3x20 4x80"),
        {"HoldfastLossesRepeat": 1},
    ),
    "a host is unreachable": Fault({f"up{rank(2)}": "1x110 0x50"}, {"HoldfastRankDown": 1}),
    "a scrape failed once": Fault({f"up{rank(2)}": "1x119 0 1x40"}, {}),
    "the coordinator is dead": Fault(
        {'up{role="coordinator",instance="c:1"}': "1x110 0x50"},
        {"HoldfastCoordinatorDown": 1},
        gone=("holdfast_coordinator_",),
    ),
    "a partition that nobody can decide": Fault(
        {f"holdfast_coordinator_blocked{COORDINATOR}": "0x110 1x50"}, {"HoldfastBlocked": 1}
    ),
    "nobody comes back": Fault(
        {f"holdfast_coordinator_members{COORDINATOR}": "4x70 3x90"}, {"HoldfastRankVacant": 1}
    ),
    "somebody comes back soon": Fault(
        {f"holdfast_coordinator_members{COORDINATOR}": "4x100 3x10 4x50"}, {}
    ),
    "no step boundary comes": Fault(
        {f"holdfast_coordinator_waiting{COORDINATOR}": "0x70 2x90"}, {"HoldfastJoinersWait": 1}
    ),
    "a rank never calls an op": Fault(
        every("holdfast_ops_total", ',collective="all_reduce",path="flat"', "0+9x100 900x60"),
        {"HoldfastHang": 4},
    ),
    "a job that computes for long": Fault(
        every("holdfast_ops_total", ',collective="all_reduce",path="flat"', "0+9x100 900x60")
        | every("holdfast_queue_depth", "", "0x160"),
        {},
    ),
    "ops time out": Fault(
        {"holdfast_ops_failed_total" + rank(1, ',cause="Timeout"'): "0x112 3x48"},
        {"HoldfastOpsFail": 1},
    ),
    "ops are aborted by the user": Fault(
        {"holdfast_ops_failed_total" + rank(1, ',cause="Aborted"'): "0x112 3x48"}, {}
    ),
    "all wait for rank 3": Fault(
        every("holdfast_peer_wait_seconds_total", ',peer="3"', "0+7x160", ranks=3),
        {"HoldfastStraggler": 1},
    ),
    "one rank waits for another": Fault(
        {"holdfast_peer_wait_seconds_total" + rank(0, ',peer="3"'): "0+7x160"}, {}
    ),
    "one link is slow": Fault(
        {"holdfast_link_rtt_seconds" + rank(0, ',peer="2"'): "0.05x160"}, {"HoldfastSlowLink": 1}
    ),
    "all links are far": Fault(
        {
            "holdfast_link_rtt_seconds" + rank(r, f',peer="{p}"'): "0.05x160"
            for r in range(4)
            for p in range(4)
            if r != p
        },
        {},
    ),
    "one link loses packets": Fault(
        {"holdfast_link_retransmits_total" + rank(0, ',peer="2"'): "0+60x160"},
        {"HoldfastLinkLoss": 1},
    ),
    "a far link is cut again and again": Fault(
        {"holdfast_link_cuts_total" + rank(0, ',peer="2",why="reset"'): "0+1x160"},
        {"HoldfastLinkFlaps": 1},
    ),
    "a far link is cut now and then": Fault(
        {"holdfast_link_cuts_total" + rank(0, ',peer="2",why="reset"'): "0x60 2x50 5x50"}, {}
    ),
    "a recovery took long": Fault(
        lost("died", 60)
        | {
            "holdfast_recovery_seconds_sum" + rank(0): "0x60 12x100",
            "holdfast_recovery_seconds_count" + rank(0): "0x60 1x100",
        },
        {"HoldfastRecoverySlow": 1},
    ),
    "a rank's keeper is gone": Fault(
        {"holdfast_state_age_seconds" + rank(2, ',state="committed"'): "5x70 20+15x90"},
        {"HoldfastStateAges": 1},
    ),
    "a snapshot takes long": Fault(
        {"holdfast_state_age_seconds" + rank(2, ',state="committed"'): "5x100 20+15x30 5x30"}, {}
    ),
    "what is flushed is old": Fault(
        {"holdfast_state_age_seconds" + rank(2, ',state="flushed"'): "9000x160"}, {}
    ),
    "one host was upgraded": Fault(
        {"holdfast_build_info" + rank(2, ',version="0.2.0"'): "1x160"},
        {"HoldfastVersionsDiffer": 1},
        gone=("holdfast_build_info" + rank(2, ',version="0.1.0"'),),
    ),
}


def alerts_at(fault: Fault, here: Path) -> dict[str, int]:
    """Which alerts fire, by promtool: its complaint names what it got where nothing is expected."""
    (here / RULES).write_text(text_of(RULES))
    series = {
        name: values
        for name, values in (healthy() | fault.series).items()
        if not any(part in name for part in fault.gone)
    }
    test = {
        "rule_files": [RULES],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{fault.minute}m", "alertname": alert, "exp_alerts": []}
                    for alert in sorted(ALERTS)
                ],
            }
        ],
    }
    path = here / "test.yml"
    path.write_text(json.dumps(test))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=60
    )
    output = done.stdout + done.stderr
    found = {}
    # alertname: X, time: 30m, \n exp:[], \n got:[ 0: Labels:{...} ... ]
    for part in output.split("alertname:")[1:]:
        name = re.match(r"\s*(\w+)", part)
        assert name is not None, output
        found[name[1]] = part.count("Labels:{")
    assert (done.returncode == 0) == (not found), output
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_on_its_fault_and_on_no_other(name: str, tmp_path: Path) -> None:
    assert alerts_at(FAULTS[name], tmp_path) == FAULTS[name].fires


def test_every_alert_has_a_fault() -> None:
    assert {alert for fault in FAULTS.values() for alert in fault.fires} == ALERTS


def expressions() -> list[str]:
    """All queries of rules and dashboard."""
    rules = [rule["expr"] for rule in yaml.safe_load(text_of(RULES))["groups"][0]["rules"]]
    panels = json.loads(text_of(DASHBOARD))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(queries) > 10
    return rules + queries


def test_rules_and_dashboard_name_metrics_that_there_are() -> None:
    known = set(re.findall(r"\bholdfast_\w+", DOCS.read_text(encoding="utf-8")))
    known |= {f"holdfast_coordinator_{name}" for name in ("members", "ranks", "waiting", "blocked")}
    for expression in expressions():
        for name in re.findall(r"\bholdfast_\w+", expression):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert {name, base} & known, f"{name} in {expression}"


def test_the_dashboard_is_one_that_prometheus_can_answer(tmp_path: Path) -> None:
    dashboard: dict[str, Any] = json.loads(text_of(DASHBOARD))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "1m", expression)}
        for number, expression in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="waits for prometheus (Debian package of that name)"
)
def test_a_real_prometheus_tells_of_a_killed_rank(tmp_path: Path) -> None:
    with Job(tmp_path, "work_until_stopped", 3) as job:
        prometheus = Prometheus(tmp_path, job.pages)
        job.keep(prometheus.process)

        def firing() -> dict[str, dict[str, str]]:
            alerts = (prometheus.ask("/api/v1/alerts") or {"alerts": []})["alerts"]
            return {a["labels"]["alertname"]: a["labels"] for a in alerts if a["state"] == "firing"}

        eventually(lambda: len(prometheus.query("holdfast_members == 3")) == 3)

        def rules() -> list[dict[str, str]]:
            found: list[dict[str, str]] = prometheus.ask("/api/v1/rules")["groups"][0]["rules"]
            return found

        assert {rule["name"] for rule in rules()} == ALERTS
        eventually(lambda: all(rule["health"] == "ok" for rule in rules()))
        assert not firing()
        kill(job.ranks[1])
        alert = eventually(lambda: firing().get("HoldfastRankLost"))
        assert alert["cause"] == "died"
        assert alert["world"] == job.world()["name"]
        assert set(firing()) == {"HoldfastRankLost"}
        job.stop(but=(1,))
