"""Who uses a GPU past the kubelet is a finding of the node that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from e2e.rig import Rig

pytestmark = pytest.mark.e2e

PATIENCE_S = 60


def test_a_pod_that_was_given_no_gpu_and_a_process_of_the_host_are_found(rig: Rig) -> None:
    found = 'gpuledger_audit_finding{job="node",check=~"rt-.*"}'
    samples = rig.prometheus.wait_for(found, lambda samples: len(samples) >= 2, timeout=PATIENCE_S)
    labels = ("namespace", "pod", "container", "workload_kind", "check", "severity")
    expected = {
        ("monitoring", "snoop-w4jbr", "agent", "DaemonSet", "rt-use-without-request", "critical"),
        ("", "", "", "Node", "rt-host-process", "high"),
    }
    assert expected == {tuple(sample.labels.get(label, "") for label in labels) for sample in samples}
