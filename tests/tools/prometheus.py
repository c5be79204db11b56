"""A real Prometheus on loopback, asked through its HTTP API as any dashboard or alert asks it."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.daemon import Daemon, until
from tools.fetch import binary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

VERSIONS = ("prometheus-2", "prometheus-3")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a query's result, at its newest value; `labels` holds `__name__` where there is one."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Target:
    """What Prometheus says of a scrape target: `health` is up, down or unknown."""

    job: str
    health: str
    error: str


class Prometheus:
    """A Prometheus of one of VERSIONS that scrapes `targets` (job name to host:port) while its context lasts.

    `scrape` holds further fields of a job's scrape configuration (`scrape_protocols`, `basic_auth`, …) by its
    name; `rules` are rule files, `alertmanagers` the host:port of who is told. Storage, configuration and log
    lie in `folder`.
    """

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, str],
        *,
        version: str = VERSIONS[-1],
        interval: str = "1s",
        scrape: Mapping[str, Mapping[str, Any]] | None = None,
        rules: Sequence[Path] = (),
        alertmanagers: Sequence[str] = (),
    ) -> None:
        self.jobs = tuple(targets)
        self._folder = folder
        self._version = version
        self._config = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": [str(rule.resolve()) for rule in rules],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]},
            "scrape_configs": [
                {
                    "job_name": job,
                    "static_configs": [{"targets": [address]}],
                    "honor_labels": True,
                    **(scrape or {}).get(job, {}),
                }
                for job, address in targets.items()
            ],
        }

    def __enter__(self) -> Self:
        config = self._folder / "prometheus.json"  # JSON is YAML
        config.write_text(json.dumps(self._config))
        command = [
            str(binary(self._version, "prometheus")),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        self._daemon = Daemon(command, self._folder / "prometheus.log")
        try:
            self._url = f"http://{self._daemon.address()}"
            until(self._ready, 15, lambda: f"not ready; log:\n{self.log()}")
        except BaseException:
            self._daemon.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._daemon.stop()

    def query(self, promql: str) -> list[Sample]:
        """Return the instant vector (or scalar) that the query yields now."""
        data = self._get("query", query=promql)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(series["metric"], float(series["value"][1])) for series in data["result"]]

    def query_value(self, promql: str) -> float | None:
        """Return the one value of the query, None where it yields nothing; fails on several."""
        samples = self.query(promql)
        assert len(samples) <= 1, samples
        return samples[0].value if samples else None

    def samples_read(self, promql: str) -> int:
        """Return how many samples the server reads for the query."""
        statistics = self._get("query", query=promql, stats="all")["stats"]
        count: int = statistics["samples"]["totalQueryableSamples"]
        return count

    def label_values(self, label: str, selector: str) -> list[str]:
        """Return the values that the label has in the series that the selector chooses."""
        values: list[str] = self._get(f"label/{label}/values", **{"match[]": selector})
        return values

    def wait_for(
        self, promql: str, predicate: Callable[[list[Sample]], bool] = bool, timeout: float = 15
    ) -> list[Sample]:
        """Repeat the query until its samples satisfy `predicate` (by default: there are some); return them."""
        seen: list[Sample] = []

        def probe() -> bool:
            seen[:] = self.query(promql)
            return predicate(seen)

        until(probe, timeout, lambda: f"{promql} after {timeout} s: {seen}; targets: {self.targets()}")
        return seen

    def targets(self) -> list[Target]:
        """Return the health of every scrape target."""
        active = self._get("targets", state="active")["activeTargets"]
        return [Target(t["labels"]["job"], t["health"], t["lastError"]) for t in active]

    def log(self) -> str:
        """Return the server's log."""
        return self._daemon.log()

    def complaints(self) -> list[str]:
        """Return the log's warnings and errors: an exposition that Prometheus dislikes shows here."""
        levels = ("level=warn", "level=error", "level=WARN", "level=ERROR")
        return [line for line in self.log().splitlines() if any(level in line for level in levels)]

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except urllib.error.HTTPError:
            return False

    def _get(self, endpoint: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{endpoint}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{endpoint} {parameters}: {json.load(error)['error']}") from error
