"""A container as its pod's manifest says, for an OCI runtime: the kubelet's and containerd's part in small."""

from __future__ import annotations

import json
import subprocess
import tarfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from tools.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECCOMP = Path("/usr/share/containers/seccomp.json")
"""The default profile of the containers project, which containerd's is made of too."""

CAPABILITY_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
DEFAULT_MOUNTS = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
)


@dataclass(frozen=True, slots=True)
class Image:
    """An unpacked image: its root file system and its configuration."""

    rootfs: Path
    config: Mapping[str, Any]


def unpack(archive: Path, folder: Path) -> Image:
    """Unpack an OCI archive."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "oci", filter="data")

    def blob(digest: str) -> Path:
        return folder / "oci" / "blobs" / digest.replace(":", "/")

    index = json.loads((folder / "oci" / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]["digest"]).read_text())
    for layer in manifest["layers"]:
        with tarfile.open(blob(layer["digest"])) as tar:
            tar.extractall(folder / "rootfs", filter="fully_trusted")  # noqa: S202 - our own; links lead anywhere
    return Image(folder / "rootfs", json.loads(blob(manifest["config"]["digest"]).read_text())["config"])


class Container(Daemon):
    """The first container of a pod as a process of this machine, on its network.

    `host` is the root folder of what the pod sees as its node's paths. `fields` are what the API would fill in
    for environment variables; `volumes` what it would project, by name.
    """

    def __init__(
        self,
        image: Image,
        pod: Mapping[str, Any],
        folder: Path,
        *,
        host: Path,
        fields: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        mounts: Mapping[str, Path] | None = None,
    ) -> None:
        self._name = f"gpuledger-{uuid.uuid4().hex[:8]}"
        self._runc = ["runc", f"--root={folder / 'runc'}"]
        config = _config(image, pod, host, fields)
        config["process"]["env"] += [f"{name}={value}" for name, value in (env or {}).items()]
        config["mounts"] += [_bind(source, target) for target, source in (mounts or {}).items()]
        (folder / "config.json").write_text(json.dumps(config))
        self._pid_file = folder / "pid"
        command = [*self._runc, "run", f"--bundle={folder}", f"--pid-file={self._pid_file}", self._name]
        super().__init__(command, folder / "container.log")

    def __enter__(self) -> Self:
        return self

    def stop(self, timeout: float = 10) -> int:
        """As the kubelet ends a container."""
        code = super().stop(timeout)
        subprocess.run([*self._runc, "delete", "--force", self._name], check=False, capture_output=True)
        return code

    @property
    def pid(self) -> int:
        """The PID of the container's first process, as this machine counts."""
        return self._program().pid

    def _program(self) -> psutil.Process:
        """The container's first process once there is one; runc has others come and go before it."""
        told = self._pid_file.exists()
        return psutil.Process(int(self._pid_file.read_text()) if told else self.process.pid)


def _config(image: Image, pod: Mapping[str, Any], host: Path, fields: Mapping[str, str]) -> dict[str, Any]:
    spec = pod["spec"]
    container = spec["containers"][0]
    security = {**spec["securityContext"], **container["securityContext"]}
    capabilities = _capabilities(security)
    namespaces = ["mount", "ipc", "uts", *([] if spec.get("hostPID") else ["pid"])]
    env = {each["name"]: _value(each, fields) for each in container.get("env", ())}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
            "args": [*image.config["Entrypoint"], *(_expand(each, env) for each in container["args"])],
            "env": [*image.config["Env"], *(f"{name}={value}" for name, value in env.items())],
            "cwd": "/",
            "noNewPrivileges": security["allowPrivilegeEscalation"] is False,
            "capabilities": dict.fromkeys(CAPABILITY_SETS, capabilities),
        },
        "root": {"path": str(image.rootfs), "readonly": security["readOnlyRootFilesystem"]},
        "mounts": [*DEFAULT_MOUNTS, *_volume_mounts(spec, container, host)],
        "linux": {
            "namespaces": [{"type": each} for each in namespaces],
            "seccomp": _seccomp(security["seccompProfile"]["type"]),
        },
    }


def _capabilities(security: Mapping[str, Any]) -> list[str]:
    assert ["ALL"] == security["capabilities"]["drop"]
    return [f"CAP_{name}" for name in security["capabilities"].get("add", ())]


def _value(variable: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    source = variable.get("valueFrom")
    return fields[source["fieldRef"]["fieldPath"]] if source else variable["value"]


def _expand(argument: str, env: Mapping[str, str]) -> str:
    for name, value in env.items():
        argument = argument.replace(f"$({name})", value)
    return argument


def _volume_mounts(
    spec: Mapping[str, Any], container: Mapping[str, Any], host: Path
) -> Iterable[dict[str, Any]]:
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        source = host / volumes[mount["name"]]["hostPath"]["path"].lstrip("/")
        yield _bind(source, mount["mountPath"], read_only=mount["readOnly"])


def _bind(source: Path, target: str, *, read_only: bool = True) -> dict[str, Any]:
    options = ["rbind", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}


def _seccomp(kind: str) -> dict[str, Any]:
    """The default profile for a container without capabilities on this architecture."""
    assert kind == "RuntimeDefault"
    profile = json.loads(SECCOMP.read_text())
    rules = []
    for rule in profile["syscalls"]:
        wanted = rule.get("includes", {})
        if wanted.get("caps") or "amd64" not in wanted.get("arches", ["amd64"]):
            continue
        rules.append({key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)})
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": rules,
    }
