"""A part of the GPU stack has a known way out of the container."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.stack import component_of, parse_release
from gpuledger.audit.subject import PodSubject
from gpuledger.parse.image import parse_image


@partial(
    Check,
    "gpu-stack-cve",
    Severity.CRITICAL,
    title="GPU stack with known vulnerabilities",
    flags="tag of a container-toolkit or gpu-operator image below the release that fixes an advisory"
    " (info where the tag names no release, or which release fixes it is not known)",
    why="These parts run as root on every GPU node and set up every GPU container: their vulnerabilities let"
    " a container take over the host. A toolkit that is installed on the host itself can't be seen in a"
    " manifest.",
    remediation="Upgrade the GPU Operator, or the container toolkit, to a release without known advisories.",
    references=("https://www.nvidia.com/en-us/security/",),
)
def gpu_stack_cve(pod: PodSubject) -> Iterator[Hit]:
    """One finding for what the release has, and one for what it may have, with all advisories."""
    for container in pod.containers:
        component = component_of(container.spec.image)
        if not component:
            continue
        tag = parse_image(container.spec.image).tag
        release = parse_release(tag)
        known, unknown = list[str](), list[str]()
        for advisory in pod.context.advisories:
            if advisory.component == component:
                if release is None or advisory.fixed is None:
                    unknown.append(advisory.id)
                elif release < (*advisory.fixed, 1):
                    known.append(advisory.id)
        path = f"{container.path}.image"
        if known:
            yield Hit(path, f"{tag}: {', '.join(known)}", container.name)
        if unknown:
            detail = f"{tag or 'no tag'}: may have {', '.join(unknown)}: unknown"
            yield Hit(path, detail, container.name, Severity.INFO)
