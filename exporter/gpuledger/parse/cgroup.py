"""Who a process belongs to by its cgroup path: a pod, a container of another runtime, or a unit of the host.

The file is specified in the kernel's Documentation/admin-guide/cgroup-v1/cgroups.rst (section 1.6) and
cgroup-v2.rst ("Processes", "Namespace"); who names a cgroup how stands beside each pattern.
"""

from __future__ import annotations

import re

from gpuledger.core.model import Cgroup, ContainerId, PodUid

_TEXT_LIMIT = 65_536  # a line for each of a dozen hierarchies, each path at most PATH_MAX (4096)
_UNIT_LIMIT = 128
_DELETED = " (deleted)"  # what the kernel appends once the cgroup is removed and a zombie is left
_LINE = re.compile(r"[0-9]+:(?P<controllers>[^:]*):(?P<path>(?:/[^/]{0,265})+)")  # NAME_MAX, and _DELETED
_MOST_TELLING = ("name=systemd", "memory", "pids", "")  # "" is cgroup v2's line, `0::`

_UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_ID = r"[0-9a-f]{64}"

# The kubelet's cgroupfs driver makes `pod<uid>` folders; its systemd driver makes slices that repeat their
# parents' names, with `_` for the UID's `-`. A static pod's UID is an MD5 sum. A runtime that does not know
# of the systemd driver takes all of `<slice>:cri-containerd:<id>` for one name.
_POD = re.compile(
    rf"(?P<slice>(?:.*-)?kubepods(?:-(?P<qos>burstable|besteffort))?-)?pod{_UID}(?:\.slice)?(?::.*)?"
)
_QOS_FOLDERS = {"kubepods": "guaranteed", "burstable": "burstable", "besteffort": "besteffort"}

# `<id>`, `docker-<id>.scope`, `libpod-payload-<id>`, `<slice>:cri-containerd:<id>`; `crio-conmon` and
# `libpod-conmon` are monitors: theirs is the id of a container that they are not in.
_CONTAINER = re.compile(rf"(?:.*:)?(?:(?P<runtime>[a-z][a-z0-9_.-]*)[-:])?(?P<id>{_ID})(?:\.scope)?")

# What only Kubernetes makes, also where a private cgroup namespace cuts the pod's own folder off.
_KUBERNETES = re.compile(
    rf"kubepods|(?:.*-)?kubepods(?:-.*)?\.slice(?::.*)?|(?:.*:)?(?:cri-containerd|crio|crio-conmon)[-:]{_ID}(?:\.scope)?"
)

# Podman's cgroupfs driver puts a pod's own ID, which is no container's, above the containers'.
_PODMAN_POD = re.compile(rf"(?<=/libpod_parent)/{_ID}(?=/)")

# LXC; Podman's cgroupfs parent and monitors; what systemd-machined runs (systemd.special(7)).
_GUEST = re.compile(r"lxc(?:\..*)?|libpod_parent|libpod-conmon-.*|machine\.slice")

# A user's service manager owns all below it, and gives it any name without being root (user@.service(5)).
_DELEGATED = re.compile(r"user@[0-9]+\.service")

# What systemd and desktops number as they make it, so that each is another: `session-3.scope`,
# `tmux-spawn-<uuid>.scope`, systemd-run's `run-r<128 bits>.service` and `run-p<pid>-i<number>.service`; and
# instances for a job or a connection (`gpu-job@4f1c9be2.service`, `sshd@7-10.0.0.1:22-….service`), though not
# those for a user (`user@1000.service`).
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SERIAL = re.compile(rf"(?<=-)(?:{_UUID}|[a-z]?(?:[0-9a-f]{{16,}}|[0-9]+))(?=[-.])")
_INSTANCE = re.compile(rf"(?<=@)(?:{_UUID}|[0-9a-f]{{8,}}|[0-9]+-.+)(?=\.service)")


def parse_cgroup(text: str, *, root_is_host: bool = True) -> Cgroup:
    """Read the whole of `/proc/<pid>/cgroup`; where its lines disagree, the one that says most counts.

    `root_is_host` tells what a bare `/` means: the host's own root, or (False: read from a private cgroup
    namespace, or of a zombie, which cgroup v1 moves to the root) nothing. What says nothing is `hidden`.
    """
    # Not splitlines(): a cgroup's name may hold every line separator but the newline, and would forge a line.
    lines = [match for line in text[:_TEXT_LIMIT].split("\n") if (match := _LINE.fullmatch(line))]
    lines.sort(key=lambda line: _rank(line["controllers"]))
    paths = dict.fromkeys(line["path"] for line in lines)  # v1 repeats one path in most of its lines
    cgroups = (_parse_path(path, root_is_host=root_is_host) for path in paths)
    return max(cgroups, key=_weight, default=Cgroup("hidden"))


def _rank(controllers: str) -> int:
    ranks = [_MOST_TELLING.index(name) for name in controllers.split(",") if name in _MOST_TELLING]
    return min(ranks, default=len(_MOST_TELLING))


def _weight(cgroup: Cgroup) -> tuple[bool, ...]:
    return (
        cgroup.kind == "pod",
        cgroup.kind == "container",
        cgroup.unit != "",
        cgroup.kind == "hidden",  # above a host without a unit, which is what a line says that knows nothing
        cgroup.container_id is not None,
        cgroup.pod_uid is not None,
        cgroup.qos != "",
    )


def _parse_path(path: str, *, root_is_host: bool) -> Cgroup:
    names = [name for name in _PODMAN_POD.sub("", path.removesuffix(_DELETED)).split("/") if name]
    delegated = any(_DELEGATED.fullmatch(name) for name in names)
    pod = None if delegated else _find_pod(names)
    return pod or _find_container(names) or _find_host(names, root_is_host=root_is_host)


def _find_pod(names: list[str]) -> Cgroup | None:
    outer = last = None
    for depth, name in enumerate(names):
        if match := _POD.fullmatch(name):
            parent = names[depth - 1] if depth else ""
            qos = match["qos"] or "guaranteed" if match["slice"] else _QOS_FOLDERS.get(parent, "")
            uid = PodUid(match["uid"].replace("_", "-"))
            last = Cgroup("pod", uid, _container_id(names[depth:]), qos, outer=outer)
            outer = outer or last
    return last or _find_unnamed_pod(names)


def _find_unnamed_pod(names: list[str]) -> Cgroup | None:
    climbed = names.count("..")
    for depth, name in enumerate(names):
        # Right above a private namespace there is the pod's own folder: a bare ID there is a sibling's.
        is_sibling = depth == climbed > 0 and re.fullmatch(_ID, name)
        if is_sibling or _KUBERNETES.fullmatch(name):
            return Cgroup("pod", container_id=_container_id(names[depth:]))
    return None


def _find_container(names: list[str]) -> Cgroup | None:
    container_id = _container_id(names)
    if container_id is None and not any(_GUEST.fullmatch(name) for name in names):
        return None
    return Cgroup("container", container_id=container_id)


def _find_host(names: list[str], *, root_is_host: bool) -> Cgroup:
    units = [name for name in names if name.endswith((".service", ".scope"))]
    if units:  # the innermost: `user@1000.service` runs services of its own
        return Cgroup("host", unit=_unit(units[-1][:_UNIT_LIMIT]))
    is_known = ".." not in names and (names or root_is_host)
    return Cgroup("host" if is_known else "hidden")


def _unit(name: str) -> str:
    """The unit's name, with `*` for what tells it from others of its kind."""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    made_up = name.endswith(".scope") or name.startswith("run-")
    return (_SERIAL if made_up else _INSTANCE).sub("*", printable)


def _container_id(names: list[str]) -> ContainerId | None:
    # The outermost: below a container there are sub-cgroups (crun's `container`) and containers in containers.
    for name in names:
        if match := _CONTAINER.fullmatch(name):
            is_monitor = (match["runtime"] or "").endswith("conmon")
            return None if is_monitor else ContainerId(match["id"])
    return None
