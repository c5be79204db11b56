"""A pod mounts volumes beyond those that come from the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import RESTRICTED
from gpuledger.audit.subject import PodSubject

_ALLOWED = (
    "host_path",  # host-path flags it
    "config_map",
    "csi",
    "downward_api",
    "empty_dir",
    "ephemeral",
    "image",
    "persistent_volume_claim",
    "projected",
    "secret",
)


@partial(
    Check,
    "volume-types",
    Severity.LOW,
    title="volume type outside the restricted policy",
    flags="spec.volumes[] other than configMap, csi, downwardAPI, emptyDir, ephemeral, image,"
    " persistentVolumeClaim, projected, secret",
    why="The other types reach for the node or for storage past the cluster. Pod Security Standards,"
    " restricted: Volume Types.",
    remediation="Use a PersistentVolumeClaim.",
    references=(RESTRICTED,),
)
def volume_types(pod: PodSubject) -> Iterator[Hit]:
    """HostPath is another check's."""
    for index, volume in enumerate(pod.spec.volumes):
        if not any(getattr(volume, source) for source in _ALLOWED):
            yield Hit(pod.path(f"volumes[{index}]"), volume.name)
