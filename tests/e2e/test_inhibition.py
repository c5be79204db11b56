"""What the example configuration of Alertmanager holds back because something else explains it."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tools.alertmanager import Alertmanager, Inbox, write_config
from tools.daemon import until
from tools.rulefiles import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.e2e

N1, N2 = {"node": "n1"}, {"node": "n2"}
GPU1, GPU2 = {**N1, "gpu_uuid": "GPU-1"}, {**N1, "gpu_uuid": "GPU-2"}
Alert = tuple[str, dict[str, str]]

EXPLAINED: list[tuple[Alert, Alert]] = [
    (("KubeNodeNotReady", N1), ("GpuXidCritical", GPU1)),
    (("KubeNodeUnreachable", N1), ("GpuExporterDown", N1)),
    (("GpuMissing", GPU1), ("GpuEccUncorrectable", GPU1)),
    (("GpuMissing", GPU1), ("GpuProcessOnUnallocatedDevice", {**GPU1, "namespace": "team-a"})),
    (("GpuXidCritical", GPU1), ("GpuXidApplication", {**GPU1, "xid": "13"})),
    (("GpuXidApplicationRepeated", {**GPU1, "xid": "31"}), ("GpuXidApplication", {**GPU1, "xid": "31"})),
    (("GpuRowRemapFailure", GPU1), ("GpuRowRemapPending", GPU1)),
    (("GpuThermalSlowdown", GPU1), ("GpuTemperatureNearSlowdown", GPU1)),
    (("GpuExporterAbsent", {}), ("GpuExporterDown", N1)),
    (("GpuExporterDown", N1), ("GpuNodeWithoutExporter", N1)),
    (("GpuDriverUnavailable", N1), ("GpuExporterSlow", {**N1, "source": "nvml"})),
]
UNEXPLAINED: list[tuple[Alert, Alert]] = [
    (("KubeNodeNotReady", N1), ("GpuXidCritical", {**N2, "gpu_uuid": "GPU-9"})),
    (("KubeNodeNotReady", N1), ("GpuPodPending", {"namespace": "team-a"})),
    (("GpuMissing", GPU1), ("GpuEccUncorrectable", GPU2)),
    (("GpuXidCritical", GPU1), ("GpuMissing", GPU1)),
    (("GpuXidApplicationRepeated", {**GPU1, "xid": "31"}), ("GpuXidApplication", {**GPU1, "xid": "13"})),
    (("GpuExporterDown", N1), ("GpuNodeWithoutExporter", N2)),
]


@dataclass(frozen=True)
class Fired:
    """Every pair has fired, in a cluster of its own: the pair's number."""

    alertmanager: Alertmanager
    inbox: Inbox

    def state(self, cluster: int, name: str) -> str:
        """What Alertmanager makes of an alert: unprocessed, active or suppressed; empty for an unknown one."""
        wanted = {"cluster": str(cluster), "alertname": name}
        known = (a for a in self.alertmanager.alerts() if wanted.items() <= a["labels"].items())
        return next((alert["status"]["state"] for alert in known), "")

    def told(self, cluster: int, name: str) -> bool:
        """Whether anybody was told of an alert."""
        wanted = {"cluster": str(cluster), "alertname": name}
        alerts = [alert for received in list(self.inbox.alerts.values()) for alert in received]
        return any(wanted.items() <= alert["labels"].items() for alert in alerts)


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fired]:
    folder = tmp_path_factory.mktemp("inhibition")
    example = ROOT / "deploy" / "alertmanager" / "alertmanager.yaml"
    alerts = [
        {"labels": {"alertname": name, "cluster": str(number), **labels}}
        for number, pair in enumerate([*EXPLAINED, *UNEXPLAINED])
        for name, labels in pair
    ]
    with Inbox() as inbox, Alertmanager(folder, write_config(example, inbox, folder)) as alertmanager:
        url, headers = f"http://{alertmanager.address()}/api/v2/alerts", {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(alerts).encode(), headers)
        with urllib.request.urlopen(request, timeout=10):
            yield Fired(alertmanager, inbox)


def numbered(pairs: list[tuple[Alert, Alert]], first: int = 0) -> list[Any]:
    """The pairs as parameters: the number, and the names of both alerts."""
    return [
        pytest.param(number, cause, effect, id=f"{cause}-{effect}-{number}")
        for number, ((cause, _), (effect, _)) in enumerate(pairs, first)
    ]


@pytest.mark.parametrize(("number", "cause", "effect"), numbered(EXPLAINED))
def test_what_is_explained_is_held_back(number: int, cause: str, effect: str, fired: Fired) -> None:
    until(lambda: fired.state(number, effect) == "suppressed", 20, fired.alertmanager.log)
    until(lambda: fired.told(number, cause), 20, fired.alertmanager.log)


@pytest.mark.parametrize(("number", "other", "alert"), numbered(UNEXPLAINED, len(EXPLAINED)))
def test_what_is_not_explained_is_told(number: int, other: str, alert: str, fired: Fired) -> None:
    until(lambda: fired.told(number, alert), 20, fired.alertmanager.log)
    assert fired.state(number, other)
