"""What processes serve is what docs/reference says: every metric, every field of every document."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from health_jobs import Job
from health_ranks import page
from ranks import kill
from waiting import eventually

from holdfast import _core
from holdfast.cli import main

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
    }
    with Job(tmp_path, "work_until_stopped", 3, **env) as job:
        job.heard()
        eventually(
            lambda: (
                {"links", "stragglers", "map", "far_links"}
                <= {k for k, v in job.world().items() if v}
            )
        )
        before = job.status()
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
