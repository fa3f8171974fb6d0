"""Jobs and servers for the tests of pages, alerts and `top`: a coordinator, ranks, Prometheus."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from health_ranks import await_file, page
from ports import held_port
from ranks import finish, kill, start_rank
from waiting import eventually

from holdfast.ft.health.files_command import RULES, text_of

MONITORING = Path(__file__).resolve().parents[3] / "examples/monitoring"


class Job:
    """A coordinator, if one is wanted, and ranks that serve pages; gone at the end of the block.

    Parameters
    ----------
    here : path
        Where ranks meet.
    function : str
        Of health_ranks; it announces its pages and ends by itself when the file `stop` is there.
    size : int
        Ranks.
    coordinator : bool
        Whether there is one.
    """

    def __init__(
        self, here: Path, function: str, size: int, *, coordinator: bool = True, **env: str
    ) -> None:
        self.here = here
        self._processes: list[subprocess.Popen[Any]] = []
        self.ranks: list[subprocess.Popen[str]] = []
        self.pages = ""
        try:
            self._start(function, size, coordinator, env)
        except BaseException:
            self._end()
            raise

    def _start(self, function: str, size: int, coordinator: bool, env: dict[str, str]) -> None:
        here = self.here
        common = {"HOLDFAST_HTTP": "127.0.0.1:0", **env}
        if coordinator:
            common["HOLDFAST_COORDINATOR"] = f"{self._start_coordinator(env)}/job"
        for r in range(size):
            self.ranks.append(start_rank("health_ranks", function, r, size, here, common))
            self._processes.append(self.ranks[-1])
        for r in range(size):
            await_file(here / f"http.{r}")
        self.where = [(here / f"http.{r}").read_text() for r in range(size)]

    def _start_coordinator(self, env: dict[str, str]) -> str:
        listens = ["--port", "0", "--address", "127.0.0.1", "--http", "127.0.0.1:0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "coordinator", *listens],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=(self.here / "coordinator.log").open("w"),
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        port = re.search(r"port (\d+)", process.stdout.readline())
        pages = re.search(r"pages at (?:http://)?(\S+)", process.stdout.readline())
        assert port is not None
        assert pages is not None
        self.pages = pages[1]
        return f"127.0.0.1:{port[1]}"

    def keep(self, process: subprocess.Popen[Any]) -> None:
        """End this process, too."""
        self._processes.append(process)

    def processes(self) -> list[subprocess.Popen[Any]]:
        """All of them."""
        return list(self._processes)

    def stop(self, but: tuple[int, ...] = ()) -> None:
        """Let the ranks end; all must succeed but those named."""
        (self.here / "stop").touch()
        for outcome in finish(self.ranks, 60):
            assert outcome.rank in but or outcome.status == 0, outcome.output

    def status(self) -> dict[str, Any]:
        """What /status says: of the coordinator, or of rank 0."""
        code, text = page(self.pages or self.where[0], "/status")
        assert code == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def world(self) -> dict[str, Any]:
        """The one world of it."""
        (found,) = self.status()["worlds"]
        world: dict[str, Any] = found
        return world

    def heard(self) -> dict[str, Any]:
        """That world, once every rank's numbers have come."""

        def whole() -> dict[str, Any] | None:
            worlds = self.status()["worlds"]
            ranks = worlds[0]["ranks"] if worlds else [{}]
            return worlds[0] if all("ops" in rank for rank in ranks) else None

        found: dict[str, Any] = eventually(whole)
        return found

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                kill(process)
            process.communicate()


class Prometheus:
    """A real server that scrapes what a coordinator names, as examples/monitoring has it do."""

    def __init__(self, here: Path, pages: str, reads: dict[str, Any] | None = None) -> None:
        config: dict[str, Any] = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        # Nothing is changed but the address, and how often it looks.
        config["global"] = dict.fromkeys(config["global"], "200ms") | {"scrape_timeout": "200ms"}
        (discovery,) = config["scrape_configs"][0]["http_sd_configs"]
        discovery["url"] = discovery["url"].replace("127.0.0.1:9400", pages)
        discovery["refresh_interval"] = "200ms"
        if reads is not None:
            # Pages that want a credential, over TLS.
            discovery["url"] = discovery["url"].replace("http:", "https:")
            discovery.update(reads)
            config["scrape_configs"][0].update(reads)
        (rules,) = config["rule_files"]
        (here / rules).write_text(text_of(RULES))
        path = here / "prometheus.yml"
        path.write_text(json.dumps(config))
        self.address = f"127.0.0.1:{held_port()}"
        self.log = here / "prometheus.log"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={here / 'tsdb'}",
                f"--web.listen-address={self.address}",
                "--enable-feature=exemplar-storage",
                "--log.level=warn",
            ],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer; nothing while it has not begun to listen."""
        query = urllib.parse.urlencode(parameters)
        try:
            status, text = page(self.address, f"{path}?{query}")
        except OSError:
            return None
        return json.loads(text)["data"] if status == 200 else None

    def query(self, query: str) -> dict[str, float]:
        """Values of an instant query, by the label rank."""
        data = self.ask("/api/v1/query", query=query)
        found = data["result"] if data else []
        return {one["metric"].get("rank", ""): float(one["value"][1]) for one in found}
