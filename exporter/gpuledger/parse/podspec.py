"""A pod's spec and status: the fields that a security or accounting question reads."""

from __future__ import annotations

import msgspec

Number = str | int | float
"""A quantity as JSON carries it: Kubernetes accepts numbers without quotes."""

_INITIALISMS = {
    "downward_api": "downwardAPI",
    "host_ipc": "hostIPC",
    "host_pid": "hostPID",
    "resource_id": "resourceID",
}


def _api_name(field: str) -> str:
    first, *rest = field.split("_")
    return _INITIALISMS.get(field, first + "".join(word.capitalize() for word in rest))


class _Part(msgspec.Struct, frozen=True, gc=False, rename=_api_name):
    """A part of an API object: fields that nobody reads are skipped, absent ones have the API's zero value."""


class Present(_Part, frozen=True):
    """An object of which only the presence matters."""


class Named(_Part, frozen=True):
    """An object of which only the name matters."""

    name: str = ""


# ---- containers ----


class ResourceClaimRef(_Part, frozen=True):
    """A container's use of one of the pod's resource claims."""

    name: str = ""
    request: str = ""


class Resources(_Part, frozen=True):
    """`resources` of a container or, without claims, of a pod."""

    limits: dict[str, Number] = {}
    requests: dict[str, Number] = {}
    claims: list[ResourceClaimRef] = []


class EnvVar(_Part, frozen=True):
    """An environment variable; one with `value_from` has no value that a manifest shows."""

    name: str = ""
    value: str = ""
    value_from: Present | None = None


class Profile(_Part, frozen=True):
    """A seccomp or AppArmor profile."""

    type: str = ""


class Capabilities(_Part, frozen=True):
    """Linux capabilities, without their `CAP_`."""

    add: list[str] = []
    drop: list[str] = []


class SeLinuxOptions(_Part, frozen=True):
    """The SELinux label that a container asks for."""

    user: str = ""
    role: str = ""
    type: str = ""


class WindowsOptions(_Part, frozen=True):
    """The Windows part of a security context."""

    host_process: bool = False


class SecurityContext(_Part, frozen=True):
    """The security context of a container or of a pod: each lacks some of the fields."""

    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    proc_mount: str = ""
    capabilities: Capabilities = Capabilities()
    seccomp_profile: Profile = Profile()
    app_armor_profile: Profile = Profile()
    se_linux_options: SeLinuxOptions | None = None
    windows_options: WindowsOptions = WindowsOptions()
    sysctls: list[Named] = []


class VolumeMount(_Part, frozen=True):
    """Where a container sees a volume."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False


class Port(_Part, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0


class _HostTarget(_Part, frozen=True):
    host: str = ""


class Handler(_Part, frozen=True):
    """A probe or a lifecycle hook: only where it connects to."""

    http_get: _HostTarget | None = None
    tcp_socket: _HostTarget | None = None

    @property
    def host(self) -> str:
        """The host it is told to connect to instead of the pod's own address."""
        return (self.http_get and self.http_get.host) or (self.tcp_socket and self.tcp_socket.host) or ""


class Lifecycle(_Part, frozen=True):
    """Hooks at a container's start and end."""

    post_start: Handler | None = None
    pre_stop: Handler | None = None


class Container(_Part, frozen=True):
    """A container of any kind; `restart_policy` is set on init containers alone (`Always`: a sidecar)."""

    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    env_from: list[Present] = []
    resources: Resources = Resources()
    security_context: SecurityContext = SecurityContext()
    volume_mounts: list[VolumeMount] = []
    ports: list[Port] = []
    restart_policy: str = ""
    liveness_probe: Handler | None = None
    readiness_probe: Handler | None = None
    startup_probe: Handler | None = None
    lifecycle: Lifecycle = Lifecycle()


# ---- the pod ----


class HostPath(_Part, frozen=True):
    """A path of the node."""

    path: str = ""


class Volume(_Part, frozen=True):
    """A volume; each source that the restricted policy forbids has its field, `host_path` with its path."""

    name: str = ""
    host_path: HostPath | None = None
    config_map: Present | None = None
    csi: Present | None = None
    downward_api: Present | None = None
    empty_dir: Present | None = None
    ephemeral: Present | None = None
    image: Present | None = None
    persistent_volume_claim: Present | None = None
    projected: Present | None = None
    secret: Present | None = None


class PodResourceClaim(_Part, frozen=True):
    """A claim that a pod uses: by name, or made for it from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(_Part, frozen=True):
    """`spec` of a pod or of a pod template."""

    containers: list[Container]
    init_containers: list[Container] = []
    ephemeral_containers: list[Container] = []
    volumes: list[Volume] = []
    node_name: str = ""
    runtime_class_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool = True
    os: Named = Named()
    security_context: SecurityContext = SecurityContext()
    resources: Resources = Resources()
    overhead: dict[str, Number] = {}
    resource_claims: list[PodResourceClaim] = []
    scheduling_gates: list[Named] = []


# ---- status ----


class Condition(_Part, frozen=True):
    """An entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ResourceHealth(_Part, frozen=True):
    """The health of one device that a container was given (KEP-4680)."""

    resource_id: str = ""
    health: str = ""


class ResourceStatus(_Part, frozen=True):
    """The devices of one resource that a container was given."""

    name: str = ""
    resources: list[ResourceHealth] = []


class ContainerStatus(_Part, frozen=True):
    """What the kubelet says of a container: what it allows it and what it gives it differ in a resize."""

    name: str = ""
    allocated_resources: dict[str, Number] = {}
    resources: Resources = Resources()
    allocated_resources_status: list[ResourceStatus] = []


class ClaimStatus(_Part, frozen=True):
    """The claim that was made for a pod's claim entry."""

    name: str = ""
    resource_claim_name: str = ""


class RequestMapping(_Part, frozen=True):
    """An extended resource that a claim stands in for."""

    resource_name: str = ""


class ExtendedResourceClaimStatus(_Part, frozen=True):
    """The claim that was made for the extended resources of a pod (KEP-5004)."""

    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] = []


class PodStatus(_Part, frozen=True):
    """`status` of a pod; its resources are those of `spec.resources`, with overhead (KEP-5419)."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    allocated_resources: dict[str, Number] = {}
    resources: Resources = Resources()
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    ephemeral_container_statuses: list[ContainerStatus] = []
    resource_claim_statuses: list[ClaimStatus] = []
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
