"""A container gives up its AppArmor profile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpuledger.audit.check import Check, Hit, Severity
from gpuledger.audit.podsecurity import BASELINE
from gpuledger.audit.subject import PodSubject

_ALLOWED = ("", "RuntimeDefault", "Localhost")
_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


@partial(
    Check,
    "apparmor",
    Severity.HIGH,
    title="AppArmor switched off",
    flags="appArmorProfile.type other than RuntimeDefault and Localhost, or the older annotation",
    why="The default profile keeps a container from mounting, and from writing to the kernel through"
    " /proc and /sys. Pod Security Standards, baseline: AppArmor.",
    remediation="Remove the setting, or name RuntimeDefault.",
    references=(BASELINE,),
    of=("security context", "annotations"),
    expected=True,
)
def apparmor(pod: PodSubject) -> Iterator[Hit]:
    """The annotation counts on clusters older than 1.30."""
    if not pod.linux:
        return
    if pod.spec.security_context.app_armor_profile.type not in _ALLOWED:
        profile = pod.spec.security_context.app_armor_profile.type
        yield Hit(pod.path("securityContext.appArmorProfile"), profile)
    for container in pod.containers:
        profile = container.spec.security_context.app_armor_profile.type
        if profile not in _ALLOWED:
            yield Hit(f"{container.path}.securityContext.appArmorProfile", profile, container.name)
    for name, profile in pod.manifest.annotations.items():
        known = profile in ("", "runtime/default") or profile.startswith("localhost/")
        if name.startswith(_ANNOTATION) and not known:
            yield Hit(f"{pod.annotations_path}[{name}]", profile, name.removeprefix(_ANNOTATION))
