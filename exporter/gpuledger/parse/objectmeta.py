"""`metadata`, which every Kubernetes object has: names, labels, times and the owner."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gpuledger.core.model import Controller


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `ownerReferences`; at most one of an object's is its controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of `metadata` that are read; a list or map that an object lacks is None."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> Controller | None:
        """The managing controller, as apimachinery's `GetControllerOf` finds it: other owners don't count."""
        for owner in self.owner_references or ():
            if owner.controller:
                return Controller(owner.kind, owner.name, owner.uid, owner.api_version.rpartition("/")[0])
        return None


def unix_seconds(time: datetime | None) -> float | None:
    """A timestamp of the API (RFC 3339) in Unix seconds."""
    return None if time is None else time.timestamp()
