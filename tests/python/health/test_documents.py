"""What processes serve is what docs/reference says: every metric, every field of every document."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from health_jobs import Job
from health_ranks import page
from ranks import kill
from waiting import eventually

from holdfast import _core
from holdfast.cli import main
from holdfast.ft.health.collect import look
from holdfast.ft.health.diagnosis_state import find_unprotected
from holdfast.ft.health.evidence import Evidence, Subject
from holdfast.ft.health.finding import Culprit, Limits

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reference import flight_record, status_json
from reference.fields import differences
from reference.metrics import sample_name


def test_documents_have_the_fields_of_their_pages(tmp_path: Path) -> None:
    """Three ranks over TCP with a map; the last of which is waited for, and one of which dies.

    Their links are trunks, and the coordinator, which has a secret, is a relay.
    """
    chart = tmp_path / "map.json"
    chart.write_text('{"format": 1, "ranks": 3, "gbit_per_s": 1, "alpha_us": 50}')
    secret = tmp_path / "job.secret"
    assert main(["secret", str(secret)]) == 0
    env = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_TRUNK": "on",
        "HOLDFAST_TOPOLOGY": str(chart),
        "HOLDFAST_SECRET_FILE": str(secret),
        "UNPROTECTED": "its keeper was lost",
    }
    with Job(tmp_path, "work_until_stopped", 3, **env) as job:
        job.heard()
        eventually(
            lambda: (
                {"links", "stragglers", "map", "far_links"}
                <= {k for k, v in job.world().items() if v}
            )
        )
        eventually(lambda: "state_kept" in job.world()["ranks"][0])
        before = job.status()
        look_at_state(job, before["worlds"][0]["ranks"])
        eventually(lambda: "wait" in page(job.where[0], "/metrics")[1])
        compare_metrics(job)
        kill(job.ranks[1])
        eventually(lambda: job.world()["ranks"][1]["state"] == "lost")
        flights = [json.loads(page(job.where[r], "/flight")[1]) for r in (0, 2)]
        own = json.loads(page(job.where[0], "/status")[1])
        # As the pages say.
        assert (own["format"], flights[0]["version"]) == (1, flight_record.version())
        assert not differences(status_json.FIELDS, [before, job.status(), own])
        assert not differences(flight_record.FIELDS, flights)
        job.stop(but=(1,))


def look_at_state(job: Job, ranks: list[dict[str, Any]]) -> None:
    """Rank 0 says that its state is unprotected: the page and the doctor say so, of no other."""
    kept = ranks[0]["state_kept"]
    assert (kept["step"], kept["unprotected"]) == (7, "its keeper was lost")
    assert 12 <= kept["age_s"] < 60
    assert 40 <= kept["unprotected_s"] < 90
    assert not any("state_kept" in rank for rank in ranks[1:])
    seen = tuple(Subject(w, r, looks=(look(w, False),)) for r, w in enumerate(job.where))
    (finding,) = find_unprotected(Evidence(seen, True), Limits())
    assert (finding.culprit, finding.sick) == (Culprit((0,)), True)
    said = r"unprotected for 4\d\.\d s: its keeper was lost, step 7 is committed, 1\d\.\d s old"
    assert re.search(said, ", ".join(finding.evidence)), finding


def compare_metrics(job: Job) -> None:
    for where, coordinator in ((job.where[0], False), (job.pages, True)):
        text = page(where, "/metrics")[1]
        rows = _core.metric_rows(coordinator)
        labels = {row[0]: set(row[4].split(", ")) - {""} for row in rows}
        names = {sample_name(row[0], row[1]): row for row in rows}
        kinds = dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text))
        # The older text format has no type for information.
        told = {name: row[1].replace("info", "gauge") for name, row in names.items()}
        assert kinds == told
        for sample, inside in re.findall(r"(?m)^(\w+)(?:\{(.*)\})? \S+$", text):
            bare = sample if sample in names else re.sub(r"_(bucket|sum|count)$", "", sample)
            assert set(re.findall(r'(\w+)="', inside)) - {"le"} == labels[names[bare][0]]
