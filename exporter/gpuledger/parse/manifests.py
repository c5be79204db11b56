"""Kubernetes objects as files hold them: pods, whatever carries a pod template, and what explains them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from gpuledger.core.model import NOTHING
from gpuledger.parse.claimspec import ClaimSpec, ClaimStatus, ClaimTemplateSpec, ClassSpec
from gpuledger.parse.objectmeta import ObjectMeta
from gpuledger.parse.podplaces import KINDS_WITHOUT_PODS, PodPlace, pod_places
from gpuledger.parse.podspec import Condition, Number, PodSpec, PodStatus


class ManifestError(ValueError):
    """An object that is not what its kind says; the message names the object, and the field where known."""


# ---- what an object is parsed into ----


class PodManifest(msgspec.Struct, frozen=True, gc=False):
    """A pod or a pod template.

    `kind` and `meta` are those of the object that holds it, `path` is the field path of the pod's spec in that
    object, `template` the template's own metadata (the object's for a pod).
    """

    kind: str
    meta: ObjectMeta
    template: ObjectMeta
    path: str
    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def namespace(self) -> str:
        """The namespace; kubectl takes `default` where a file names none."""
        return self.meta.namespace or "default"

    @property
    def live(self) -> bool:
        """Whether it came from a cluster, also if its UID was stripped: no manifest has a status."""
        return bool(self.meta.uid or self.meta.resource_version or self.status.phase)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.template.annotations or NOTHING

    @property
    def terminal(self) -> bool:
        """A pod that has ended for good: it holds no device."""
        return self.status.phase in ("Succeeded", "Failed")


class _Object(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class _Pod(_Object, frozen=True, gc=False, kw_only=True):
    spec: PodSpec
    status: PodStatus = PodStatus()


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """What an administrator says of a node."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What the kubelet says of a node."""

    capacity: dict[str, Number] = {}
    allocatable: dict[str, Number] = {}
    conditions: list[Condition] = []


class Node(_Object, frozen=True, gc=False):
    """A node: its labels and what it offers."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(_Object, frozen=True, gc=False):
    """A namespace: its labels."""


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Amounts per resource of a quota."""

    hard: dict[str, Number] = {}
    used: dict[str, Number] = {}


class ResourceQuota(_Object, frozen=True, gc=False):
    """A quota; `status` is what the cluster enforces, `spec` what was asked for."""

    spec: Amounts = Amounts()
    status: Amounts = Amounts()


class ResourceClaim(_Object, frozen=True, gc=False):
    """A claim on devices."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class DeviceClass(_Object, frozen=True, gc=False):
    """A class of devices for claims."""

    spec: ClassSpec = ClassSpec()


class ResourceClaimTemplate(_Object, frozen=True, gc=False):
    """A template of claims."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


class SliceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whose devices a slice offers; `node_name` is empty where they are not one node's."""

    driver: str = ""
    node_name: str = ""


class ResourceSlice(_Object, frozen=True, gc=False):
    """A part of a pool of devices for claims."""

    spec: SliceSpec = SliceSpec()


_Known = Node | Namespace | ResourceQuota | DeviceClass | ResourceClaim | ResourceClaimTemplate | ResourceSlice
KubeObject = PodManifest | _Known

_KINDS: dict[str, type[_Known]] = {cls.__name__: cls for cls in get_args(_Known)}
_GROUPS = dict.fromkeys(
    ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"), "resource.k8s.io"
)

_pods = msgspec.json.Decoder(list[_Pod])


# ---- from JSON, and from the plain values that YAML gives ----


def parse_objects(array: bytes, list_kind: str = "") -> list[KubeObject | ManifestError]:
    """The objects of interest in a JSON array: none for a Service, several for a List or a RayCluster.

    `list_kind` is the kind of the list that the objects stood in, which need not name theirs (`PodList`). An
    item of a List that is malformed stands as the error among the others.

    Raises:
        msgspec.DecodeError: the text is not JSON.
        ManifestError: an object is not one of Kubernetes, or a field has the wrong type.
    """
    kinds = {"Pod", ""} if list_kind in ("", "List", "PodList") else {"Pod"}
    try:
        pods = _pods.decode(array)
    except (msgspec.ValidationError, RecursionError):
        pass  # other kinds, nulls, or malformed: the careful way tells
    else:
        if {pod.kind for pod in pods} <= kinds:
            return [_pod_manifest(pod) for pod in pods]
    try:
        return [
            found
            for value in msgspec.json.decode(array, type=list[Any])
            for found in parse_plain_object(value, list_kind)
        ]
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error


def parse_plain_object(value: object, list_kind: str = "") -> tuple[KubeObject | ManifestError, ...]:
    """As `parse_objects`, from one object, or an array of them, that is already plain values.

    Raises:
        ManifestError: it is not a Kubernetes object, or a field has the wrong type.
    """
    try:
        if isinstance(value, list) and value and not list_kind:
            return tuple(_items(value, ""))
        return tuple(_objects(value, list_kind))
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error


def _items(items: list[object], list_kind: str) -> Iterator[KubeObject | ManifestError]:
    for position, item in enumerate(items, start=1):
        try:
            yield from _objects(item, list_kind)
        except ManifestError as error:
            yield ManifestError(f"item {position}: {error}")


def _objects(value: object, list_kind: str) -> Iterator[KubeObject | ManifestError]:
    if not isinstance(value, dict):
        raise ManifestError(f"expected a Kubernetes object, got {_type_name(value)}")
    kind = value.get("kind") or list_kind.removesuffix("List")
    if not isinstance(kind, str):
        raise ManifestError(f"expected a kind, got {_type_name(kind)}")
    if isinstance(value.get("items"), list) and (not kind or kind.endswith("List")):
        yield from _items(value["items"], kind)
    elif not kind and not isinstance(value.get("spec"), dict):
        raise ManifestError('expected a Kubernetes object: no "kind", no "items", no "spec"')
    elif kind in _ANSWERS or (kind.endswith("List") and not _names(value)):
        raise ManifestError(f"{kind} without items" + (f": {value['message']}" if value.get("message") else ""))
    else:
        try:
            yield from _of_kind(kind or "Pod", value)
        except ManifestError as error:
            raise ManifestError(f"{_identity(value, kind or 'Pod')}: {error}") from error


_ANSWERS = ("Status", "Table")
"""What the API answers beside objects: an error, or a list made for people."""


def _of_kind(kind: str, value: dict[str, Any]) -> Iterator[KubeObject | ManifestError]:
    if kind == "Pod":
        yield _pod_manifest(_convert(value, _Pod))
    elif kind in _KINDS and _is_of_group(value, _GROUPS.get(kind, "")):
        yield _convert(value, _KINDS[kind])
    else:
        yield from _pods_of(kind, value)


def _is_of_group(value: dict[str, Any], group: str) -> bool:
    """Whether an object is of an API group: others have a Node too. Items of the API's own lists don't tell."""
    version = value.get("apiVersion")
    return not isinstance(version, str) or version.rpartition("/")[0] == group


def _pods_of(kind: str, value: dict[str, Any]) -> Iterator[PodManifest | ManifestError]:
    """The pod templates of another kind of object; last, an error if it names a GPU outside of them."""
    meta = _convert(value.get("metadata") or {}, ObjectMeta, "metadata")
    spec = value.get("spec")
    if meta.controller and isinstance(spec, dict) and spec.get("replicas") == 0:
        return  # an old revision, kept for a rollback
    unplaced = None
    for place in pod_places(value):
        if isinstance(place, PodPlace):
            own = _convert(place.metadata, ObjectMeta, f"{place.path.removesuffix('.spec')}.metadata")
            yield PodManifest(kind, meta, own, place.path, _convert(place.spec, PodSpec, place.path))
        elif unplaced is None and not place.path.startswith("status."):
            unplaced = place
    if unplaced and kind not in KINDS_WITHOUT_PODS:
        yield ManifestError(
            f"{_identity(value, kind)}: no pod template found that asks for {unplaced.resource}"
            f" at `{unplaced.path}`"
        )


def _pod_manifest(pod: _Pod) -> PodManifest:
    return PodManifest("Pod", pod.metadata, pod.metadata, "spec", pod.spec, pod.status)


_T = TypeVar("_T")


def _convert(value: object, cls: type[_T], path: str = "") -> _T:
    try:
        return msgspec.convert(_without_nulls(value), cls)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = f"{path}{where.removesuffix('`')}".lstrip(".")
        what = what.replace("Object missing required field", "missing field")
        raise ManifestError(f"{what} at `{place}`" if place else what) from error


def _without_nulls(value: object) -> Any:
    """The value without its nulls, which Kubernetes takes for absent fields."""
    if isinstance(value, dict):
        return {str(key): _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


def _identity(value: dict[str, Any], kind: str) -> str:
    return f"{kind} {'/'.join(_names(value)) or '?'}"


def _names(value: dict[str, Any]) -> list[str]:
    """The namespace and name of an object, as far as it has them."""
    meta = value.get("metadata")
    names = [meta.get(key) for key in ("namespace", "name")] if isinstance(meta, dict) else []
    return [name for name in names if isinstance(name, str)]


def _type_name(value: object) -> str:
    return {dict: "an object", list: "an array", str: "a string", type(None): "null"}.get(
        type(value), "a scalar"
    )
