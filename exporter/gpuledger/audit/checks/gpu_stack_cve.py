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
    flags="tag of a container-toolkit or gpu-operator image below the release that fixes an advisory",
    why="These parts run as root on every GPU node and set up every GPU container: their vulnerabilities let"
    " a container take over the host. A toolkit that is installed on the host itself can't be seen in a"
    " manifest.",
    remediation="Upgrade the GPU Operator, or the container toolkit, to a release without known advisories.",
    references=("https://www.nvidia.com/en-us/security/",),
)
def gpu_stack_cve(pod: PodSubject) -> Iterator[Hit]:
    """One finding for each container, with all its advisories."""
    for container in pod.containers:
        component = component_of(container.spec.image)
        if not component:
            continue
        tag = parse_image(container.spec.image).tag
        release = parse_release(tag)
        known = [
            advisory.id
            for advisory in pod.context.advisories
            if release and advisory.component == component and release < (*advisory.fixed, 1)
        ]
        if known:
            yield Hit(f"{container.path}.image", f"{tag}: {', '.join(known)}", container.name)
