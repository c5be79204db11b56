"""Kubernetes objects as files hold them: pods, whatever carries a pod template, and what explains them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from gpuledger.core.model import NOTHING
from gpuledger.parse.claimspec import ClaimSpec, ClaimStatus, ClaimTemplateSpec
from gpuledger.parse.objectmeta import ObjectMeta
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


class ResourceClaimTemplate(_Object, frozen=True, gc=False):
    """A template of claims."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


KubeObject = PodManifest | Node | Namespace | ResourceQuota | ResourceClaim | ResourceClaimTemplate

_KINDS: dict[str, type[Node | Namespace | ResourceQuota | ResourceClaim | ResourceClaimTemplate]] = {
    cls.__name__: cls for cls in (Node, Namespace, ResourceQuota, ResourceClaim, ResourceClaimTemplate)
}

_pods = msgspec.json.Decoder(list[_Pod])


# ---- from JSON, and from the plain values that YAML gives ----


def parse_objects(array: bytes, list_kind: str = "") -> list[KubeObject]:
    """The objects of interest in a JSON array: none for a Service, several for a List or a RayCluster.

    `list_kind` is the kind of the list that the objects stood in, which need not name theirs (`PodList`).

    Raises:
        msgspec.DecodeError: the text is not JSON.
        ManifestError: an object is not one of Kubernetes, or a field has the wrong type.
    """
    pod_list = list_kind in ("", "List", "PodList")
    try:
        pods = _pods.decode(array)
    except (msgspec.ValidationError, RecursionError):
        pass  # other kinds, nulls, or malformed: the careful way tells
    else:
        if all(pod.kind == "Pod" or (pod_list and not pod.kind) for pod in pods):
            return [_pod_manifest(pod) for pod in pods]
    try:
        return [found for value in msgspec.json.decode(array) for found in parse_plain_object(value, list_kind)]
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error


def parse_plain_object(value: object, list_kind: str = "") -> tuple[KubeObject, ...]:
    """As `parse_object`, from an object that is already plain values.

    Raises:
        ManifestError: it is not a Kubernetes object, or a field has the wrong type.
    """
    try:
        return tuple(_objects(value, list_kind))
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error


def _objects(value: object, list_kind: str) -> Iterator[KubeObject]:
    if not isinstance(value, dict):
        raise ManifestError(f"expected a Kubernetes object, got {_type_name(value)}")
    kind = value.get("kind") or list_kind.removesuffix("List")
    if not isinstance(kind, str):
        raise ManifestError(f"expected a kind, got {_type_name(kind)}")
    if isinstance(value.get("items"), list) and (not kind or kind.endswith("List")):
        for item in value["items"]:
            yield from _objects(item, kind)
    elif not kind and not isinstance(value.get("spec"), dict):
        raise ManifestError('expected a Kubernetes object: no "kind", no "items", no "spec"')
    else:
        try:
            yield from _of_kind(kind or "Pod", value)
        except ManifestError as error:
            raise ManifestError(f"{_identity(value, kind or 'Pod')}: {error}") from error


def _of_kind(kind: str, value: dict[str, Any]) -> Iterator[KubeObject]:
    if kind == "Pod":
        yield _pod_manifest(_convert(value, _Pod))
    elif kind in _KINDS:
        yield _convert(value, _KINDS[kind])
    else:
        for path, template in _templates(value, ""):
            meta = _convert(value.get("metadata") or {}, ObjectMeta, "metadata")
            if meta.controller and isinstance(value.get("spec"), dict) and value["spec"].get("replicas") == 0:
                return  # an old revision, kept for a rollback
            own = _convert(template.get("metadata") or {}, ObjectMeta, f"{path}.metadata")
            spec_path = f"{path}.spec"
            yield PodManifest(kind, meta, own, spec_path, _convert(template["spec"], PodSpec, spec_path))


def _pod_manifest(pod: _Pod) -> PodManifest:
    return PodManifest("Pod", pod.metadata, pod.metadata, "spec", pod.spec, pod.status)


def _templates(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod template below `value` with its field path, wherever its kind keeps it."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if path and isinstance(spec, dict) and "containers" in spec:
            yield path, value
            return
        for key, part in value.items():
            yield from _templates(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _templates(part, f"{path}[{index}]")


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
    meta = value.get("metadata")
    names = [meta.get(key) for key in ("namespace", "name")] if isinstance(meta, dict) else []
    return f"{kind} {'/'.join(name for name in names if isinstance(name, str)) or '?'}"


def _type_name(value: object) -> str:
    return {dict: "an object", list: "an array", str: "a string", type(None): "null"}.get(
        type(value), "a scalar"
    )
