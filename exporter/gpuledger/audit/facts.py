"""What the whole cluster tells about its pods, known only once every object was seen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuledger.audit.claims import ClaimBook
from gpuledger.audit.deviceclasses import DeviceClasses
from gpuledger.audit.inventory import InventoryBook
from gpuledger.audit.posture import Posture
from gpuledger.parse.manifests import (
    DeviceClass,
    KubeObject,
    Namespace,
    Node,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
    ResourceSlice,
)

_ADMIN_ACCESS = ("resource.kubernetes.io/admin-access", "resource.k8s.io/admin-access")


@dataclass(slots=True)
class ClusterFacts:
    """Collected object by object; the judgement of findings reads it."""

    also: re.Pattern[str] | None = None
    classes: DeviceClasses = field(init=False)
    inventory: InventoryBook = field(init=False)
    claims: ClaimBook = field(init=False)
    posture: Posture = field(default_factory=Posture)
    admin_namespaces: set[str] = field(default_factory=set)
    """Namespaces that an administrator labelled for admin access to devices."""

    def __post_init__(self) -> None:
        self.classes = DeviceClasses(self.also)
        self.inventory = InventoryBook(self.classes)
        self.claims = ClaimBook(self.classes)

    def observe(self, item: KubeObject) -> None:
        """Take note of what an object tells about others; what pods tell is `posture`'s."""
        if isinstance(item, Node):
            self.inventory.add_node(item)
        elif isinstance(item, ResourceSlice):
            self.inventory.add_slice(item)
        elif isinstance(item, ResourceQuota):
            self.inventory.add_quota(item)
        elif isinstance(item, DeviceClass):
            self.classes.add(item)
        elif isinstance(item, ResourceClaim | ResourceClaimTemplate):
            self.claims.add(item)
        elif isinstance(item, Namespace):
            labels = item.metadata.labels or {}
            if any(labels.get(name) == "true" for name in _ADMIN_ACCESS):
                self.admin_namespaces.add(item.metadata.name)
