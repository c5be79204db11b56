"""Where an object of any kind keeps its pods: templates, bare pod specs, or single containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuledger.core.model import NOTHING
from gpuledger.core.resources import gpu_resource_kind
from gpuledger.parse.podspec import Container, PodSpec
from gpuledger.parse.quantity import readable_amount

KINDS_WITHOUT_PODS = frozenset((
    # quotas, queues and gangs
    *("LimitRange", "ResourceQuota", "ClusterResourceQuota", "AppliedClusterResourceQuota", "ElasticQuota"),
    *("ElasticQuotaTree", "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Queue", "PodGroup"),
    # nodes, and who makes them
    *("Node", "NodeClaim", "NodePool", "NodeOverlay", "NodeFeature", "NodeFeatureRule", "NodeResourceTopology"),
    *("Machine", "MachineSet", "MachineDeployment", "MachinePool", "ClusterAutoscaler"),
    # settings and rules
    *("ConfigMap", "Secret", "CustomResourceDefinition", "ClusterPolicy", "Policy", "PrometheusRule"),
    *("KubeVirt", "KubeletConfiguration", "KubeSchedulerConfiguration", "ValidatingAdmissionPolicy"),
    *("MutatingAdmissionPolicy", "HorizontalPodAutoscaler", "VerticalPodAutoscaler", "ScaledObject", "Event"),
))  # fmt: skip
"""Kinds that name GPU resources without asking for any: limits, offers, thresholds, texts."""

_NO_REQUESTS = frozenset((
    *("labels", "annotations", "matchLabels", "nodeSelector", "affinity", "nodeAffinity"),
    *("tolerations", "taints"),
    "minResources",  # what a gang waits for: the sum over its pods
))  # fmt: skip
"""Fields whose names are those of labels and taints, or repeat what pods ask for."""

_SINGLE = ("container", "script")
"""Where Argo Workflows keep a template's one container."""

_ARGO = frozenset((*_SINGLE, "containerSet", "sidecars"))
_OF_THE_WORKFLOW = ("hostNetwork", "securityContext")
"""What Argo takes from the Workflow for each of its pods; its volumes are added to the template's."""

_LISTS = ("containers", "initContainers", "ephemeralContainers")
_POD_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(PodSpec))
_CONTAINER_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(Container))

_KEY_IN_TEXT = re.compile(r"(?<![\w./-])[\w.-]++/[\w.-]++(?=\\*+[\"']?\s*+[:=])")
"""A name that is a key of JSON or YAML in a text, such as a patch or the values of a chart."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod spec in an object, as plain values: its field path, and the metadata beside it."""

    path: str
    spec: dict[str, Any]
    metadata: object


@dataclass(frozen=True, slots=True)
class UnplacedGpu:
    """A GPU resource that an object names at `path`, which belongs to no pod spec that was found."""

    path: str
    resource: str


def pod_places(
    value: object, path: str = "", workflow: Mapping[str, Any] = NOTHING
) -> Iterator[PodPlace | UnplacedGpu]:
    """Every pod spec below `value`, wherever its kind keeps it, and the GPUs that are named outside of them.

    `workflow` is the Argo WorkflowSpec that `value` stands in.
    """
    if isinstance(value, dict):
        found = _place(value, path, workflow) if path else None
        if found:
            place, value = found
            yield place
        if isinstance(value.get("templates"), list):
            workflow = value
        for key, part in value.items():
            if key in _NO_REQUESTS or (key == "key" and isinstance(part, str)):
                continue
            below = f"{path}.{key}" if path else str(key)
            if _is_gpu(str(key)) and not (isinstance(part, str | int | float) and readable_amount(part) == 0):
                yield UnplacedGpu(below, str(key))
            yield from pod_places(part, below, workflow)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from pod_places(part, f"{path}[{index}]", workflow)
    elif isinstance(value, str) and (resource := _named_gpu(value)):
        yield UnplacedGpu(path, resource)


def _is_gpu(name: str) -> bool:
    return "/" in name and gpu_resource_kind(name) is not None


def _named_gpu(text: str) -> str:
    """The GPU resource that a text is, or has as a key; empty where there is none."""
    if "/" not in text:
        return ""
    names = (text, *(match[0] for match in _KEY_IN_TEXT.finditer(text)))
    return next(filter(_is_gpu, names), "")


def _place(
    value: dict[str, Any], path: str, workflow: Mapping[str, Any]
) -> tuple[PodPlace, dict[str, Any]] | None:
    """The pod spec that a value is or has, and what is left of the value."""
    metadata = value.get("metadata") or {}
    spec = value.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        return PodPlace(f"{path}.spec", spec, metadata), {**value, "spec": _unread(spec)}
    if _are_containers(value.get("containers")):
        return PodPlace(path, value, metadata), _unread(value)
    if containers := _argo_containers(value):
        shared = {key: workflow[key] for key in _OF_THE_WORKFLOW if key in workflow}
        volumes = [each for holder in (workflow, value) for each in _listed(holder.get("volumes"))]
        pod = {**shared, **value, "containers": containers, "volumes": volumes}
        left = {key: part for key, part in _unread(pod).items() if key not in _ARGO}
        return PodPlace(path, pod, _argo_metadata(workflow.get("podMetadata"), metadata)), left
    return None


def _argo_containers(template: dict[str, Any]) -> list[Any]:
    """The containers of an Argo template, the sidecars last; none where it is no such template."""
    found = [
        {"name": key, **part}
        for key in _SINGLE
        if isinstance(part := template.get(key), dict) and _is_container(part)
    ]
    group = template.get("containerSet")
    if isinstance(group, dict) and _are_containers(group.get("containers")):
        found += group["containers"]
    return [*found, *_listed(template.get("sidecars"))] if found else []


def _argo_metadata(of_all: object, own: object) -> object:
    """The metadata of an Argo template's pods: the template's own over that of the Workflow."""
    if not isinstance(of_all, dict) or not isinstance(own, dict):
        return own
    common, annotations = of_all.get("annotations"), own.get("annotations") or {}
    if not isinstance(common, dict) or not isinstance(annotations, dict):
        return own
    return {**own, "annotations": {**common, **annotations}}


def _listed(value: object) -> list[Any]:
    """The list, which may be absent; anything else stays as an element, to be told as malformed."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _unread(spec: dict[str, Any]) -> dict[str, Any]:
    """What is left of a pod's spec and its containers without the fields that the audit reads."""
    left = {key: part for key, part in spec.items() if key not in _POD_FIELDS}
    for key in _LISTS:
        containers = spec.get(key)
        if isinstance(containers, list):
            left[key] = [
                {name: part for name, part in each.items() if name not in _CONTAINER_FIELDS}
                for each in containers
                if isinstance(each, dict)
            ]
    return left


def _are_containers(value: object) -> bool:
    return isinstance(value, list) and any(map(_is_container, value))


def _is_container(value: Any) -> bool:
    return isinstance(value, dict) and ("image" in value or "resources" in value)
