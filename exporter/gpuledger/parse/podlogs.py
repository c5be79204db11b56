"""Names in the kubelet's log folders: `/var/log/pods`, and `/var/log/containers` with its links into it.

The kubelet composes them in pkg/kubelet/kuberuntime (`BuildContainerLogsDirectory`, `logSymlink`). An
underscore is legal in none of the parts, so each name reads in one way only.
"""

from __future__ import annotations

import re

from gpuledger.core.model import ContainerId, LoggedContainer, PodUid

# RFC 1123 labels and subdomains as apimachinery validates them: a subdomain's parts have no limit of their own.
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_PART}(?:\.{_PART})*"
_SUBDOMAIN_LIMIT = 253

_POD_DIR = re.compile(
    rf"(?P<namespace>{_LABEL})_(?P<pod>{_SUBDOMAIN})_(?P<uid>[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|[0-9a-f]{{32}})"
)
_LINK = re.compile(
    rf"(?P<pod>{_SUBDOMAIN})_(?P<namespace>{_LABEL})_(?P<container>{_LABEL})-(?P<id>[0-9a-f]{{64}})\.log"
)
_TARGET = re.compile(r"(?:.*/)?(?P<dir>[^/]+)/(?P<container>[^/]+)/[0-9]+\.log", re.DOTALL)


def parse_container_log_name(file_name: str, link_target: str) -> tuple[ContainerId, LoggedContainer] | None:
    """Read a link of `/var/log/containers`: whose container an ID is; None if it is not the kubelet's.

    Only the target tells the pod's UID, None where it has another form (Kubernetes before 1.14). A link and a
    target that name different containers are worth nothing. The kubelet cuts names off at 255 bytes, and with
    them the ID: such a link is not read.
    """
    link = _LINK.fullmatch(file_name)
    if link is None or len(link["pod"]) > _SUBDOMAIN_LIMIT:
        return None
    pod_uid = None
    target = _TARGET.fullmatch(link_target)
    if target and (folder := parse_pod_log_dir(target["dir"])):
        pod_uid, namespace, pod = folder
        if (namespace, pod, target["container"]) != (link["namespace"], link["pod"], link["container"]):
            return None
    logged = LoggedContainer(link["namespace"], link["pod"], link["container"], pod_uid)
    return ContainerId(link["id"]), logged


def parse_pod_log_dir(name: str) -> tuple[PodUid, str, str] | None:
    """Read the UID, namespace and name of a pod from its folder in `/var/log/pods`; None if it is no pod's."""
    match = _POD_DIR.fullmatch(name)
    if match is None or len(match["pod"]) > _SUBDOMAIN_LIMIT:
        return None
    return PodUid(match["uid"]), match["namespace"], match["pod"]


def is_container_name(name: str) -> bool:
    """Whether a pod's spec may name a container so: as the kubelet names the folders below a pod's."""
    return re.fullmatch(_LABEL, name) is not None
