"""The compose file of examples/monitoring gives its containers what they read.

There is no Docker here: the containers are not started. Prometheus's configuration runs under a
real Prometheus in `tests/python/health/test_alerts.py`; Grafana's files are held to the keys that
its documentation has (grafana.com/docs/grafana/latest/administration/provisioning), and the compose
file to those of the Compose specification (github.com/compose-spec/compose-spec) that it uses.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft.health.files_command import DASHBOARD, RULES, text_of

yaml = pytest.importorskip("yaml", reason="waits for PyYAML")

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "monitoring"
# What the README has `holdfast health` write.
GENERATED = {"alerts.yml": RULES, "dashboard.json": DASHBOARD}
SERVICE_KEYS = {
    *("image", "network_mode", "restart", "command", "configs", "volumes", "environment"),
    "depends_on",
}
SOURCE_KEYS = {"name", "uid", "type", "access", "url", "isDefault", "jsonData"}
PROVIDER_KEYS = {"name", "type", "disableDeletion", "allowUiUpdates", "options"}


def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


def files_of(service: str) -> dict[str, str]:
    """Paths in the container, and the files of the folder that are there."""
    compose = loaded("compose.yaml")
    return {
        one["target"]: Path(compose["configs"][one["source"]]["file"]).name
        for one in compose["services"][service]["configs"]
    }


def test_the_compose_file_is_whole() -> None:
    compose = loaded("compose.yaml")
    assert set(compose) == {"services", "configs", "volumes"}
    used = set()
    for service in compose["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service["image"]), "no version"
        used |= {one["source"] for one in service["configs"]}
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"]
        assert set(service.get("depends_on", [])) <= set(compose["services"])
        # Nobody asks for a password: only this host may reach it.
        listens = [*service.get("command", []), *service.get("environment", {}).values()]
        assert any("127.0.0.1" in str(value) for value in listens)
    assert used == set(compose["configs"])
    readme = (FOLDER / "README.md").read_text()
    for config in compose["configs"].values():
        name = Path(config["file"]).name
        assert (FOLDER / name).exists() or name in GENERATED
        assert name not in GENERATED or f"> {name}" in readme


def test_prometheus_finds_its_files_and_accepts_them(tmp_path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("waits for promtool (Debian package prometheus)")
    files = files_of("prometheus")
    command = loaded("compose.yaml")["services"]["prometheus"]["command"]
    (config,) = [word.split("=")[1] for word in command if word.startswith("--config.file=")]
    # In one folder there as here, since the rules are named beside the configuration.
    assert {str(Path(path).parent) for path in files} == {str(Path(config).parent)}
    for path, name in files.items():
        made = text_of(GENERATED[name]) if name in GENERATED else (FOLDER / name).read_text()
        (tmp_path / Path(path).name).write_text(made)
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / Path(config).name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_grafana_finds_the_dashboard_and_where_its_figures_come_from() -> None:
    files = files_of("grafana")
    (source,) = loaded("datasource.yml")["datasources"]
    assert set(source) <= SOURCE_KEYS
    assert source["isDefault"]  # what the dashboard's variable chooses
    address = "http://127.0.0.1:9090"
    assert source["url"] == address
    assert f"--web.listen-address={address[7:]}" in str(loaded("compose.yaml"))
    (provider,) = loaded("provider.yml")["providers"]
    assert set(provider) <= PROVIDER_KEYS
    assert loaded("datasource.yml")["apiVersion"] == loaded("provider.yml")["apiVersion"] == 1
    # Grafana reads each kind from its own folder.
    for kind, name in (("datasources", "datasource.yml"), ("dashboards", "provider.yml")):
        assert files[f"/etc/grafana/provisioning/{kind}/holdfast.yaml"] == name
    (where,) = [path for path, name in files.items() if name == "dashboard.json"]
    assert str(Path(where).parent) == provider["options"]["path"]
    environment = loaded("compose.yaml")["services"]["grafana"]["environment"]
    assert environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == where
    variables = json.loads(text_of(DASHBOARD))["templating"]["list"]
    assert {"type": "datasource", "query": "prometheus"}.items() <= variables[0].items()
