"""Prometheus' own labels for a target don't take the place of those that name the tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.prometheus import Prometheus

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.rig import Rig

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("honored", "pod"),
    [
        pytest.param(True, "train-0", id="as documented"),
        pytest.param(False, "gpuledger-x7k2p", id="by default"),
    ],
)
def test_pod_is_the_tenant_where_the_scrape_honors_labels(
    rig: Rig, tmp_path: Path, *, honored: bool, pod: str
) -> None:
    """As Kubernetes' service discovery labels the exporter's own pod."""
    labels = {"namespace": "monitoring", "pod": "gpuledger-x7k2p", "container": "node"}
    address = rig.node.url.removeprefix("http://")
    job = {"static_configs": [{"targets": [address], "labels": labels}], "honor_labels": honored}
    with Prometheus(tmp_path, {"node": address}, interval="500ms", scrape={"node": job}) as prometheus:
        uuid = rig.gpus[0].uuid
        samples = prometheus.wait_for(f'gpuledger_container_memory_used_bytes{{gpu_uuid="{uuid}"}}')
        assert [pod] == [sample.labels["pod"] for sample in samples]
