"""One GPU node as all its fakes tell it: who uses what, told alike by NVML, /proc, kubelet, logs and API.

Pods run real processes in real cgroups. `publish` writes what has changed since to where the exporter looks.
"""

from __future__ import annotations

import shutil
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from fakes import cgroups, kubelet
from fakes.apiserver import ApiServer
from fakes.nvml import presets
from fakes.nvml.scenario import Process, Scenario
from fakes.processes import Processes
from fakes.tenants import Tenant, api_objects
from gpuledger.core.model import MigUuid, Owner, Reason, Unattributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from fakes.apistore import Object
    from fakes.nvml.scenario import Gpu, MigDevice, Readings
    from fakes.tenants import Controlled

MIB = presets.MIB
DRIVER_SHARE = 600 * MIB
"""What a driver holds on each GPU (or MIG device) beside its processes."""

Holder = Owner | Unattributed


class World:
    """A node with `scenario`'s GPUs; a context manager, since its processes and kubelet are real."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.folder = folder
        self.scenario = scenario
        self.scenario_file = folder / "nvml.scenario"
        self.socket = folder / "kubelet.sock"
        self.pod_logs = folder / "pods"
        self.container_logs = folder / "containers"
        self.tenants: list[Tenant] = []
        self.holders: dict[int, Holder] = {}
        """Whose each process on a GPU is."""
        self.owners: list[Owner] = []
        """All pods there have been."""
        self._api: ApiServer | None = None
        self._in_api: dict[tuple[str, str], Object] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        for directory in (self.pod_logs, self.container_logs):
            directory.mkdir()
        self.processes = self._cleanup.enter_context(Processes(self.folder))
        self.kubelet = self._cleanup.enter_context(kubelet.FakeKubelet(self.socket))
        self.publish()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def admit(
        self,
        controlled: Controlled,
        *devices: str,
        namespace: str = "team-a",
        container: str = "main",
        resource: str = "nvidia.com/gpu",
        cgroup: Callable[[str, str], str] = cgroups.containerd_systemd,
    ) -> Tenant:
        """Start a pod that holds `devices`; no process of it runs yet."""
        uid, container_id = str(uuid.uuid4()), cgroups.new_container_id()
        tenant = Tenant(
            namespace=namespace,
            controlled=controlled,
            container=container,
            uid=uid,
            container_id=container_id,
            cgroup=cgroup(uid, container_id),
            resource=resource,
            devices=devices,
        )
        self.tenants.append(tenant)
        self.owners.append(tenant.owner)
        self._write_logs(tenant)
        return tenant

    def run(
        self,
        tenant: Tenant,
        *gpus: Gpu,
        memory: int | None,
        sm: int | None = None,
        mig: MigDevice | None = None,
    ) -> int:
        """Start a process of the pod that uses `memory` bytes of each of these GPUs; returns its PID.

        None is memory that NVML does not tell.
        """
        pid = self.processes.start(tenant.cgroup)
        self.holders[pid] = tenant.owner
        for gpu in gpus:
            self.list_process(gpu, pid, memory=memory, sm=sm, mig=mig)
        return pid

    def run_outside(
        self, cgroup: str, gpu: Gpu, *, reason: Reason, unit: str = "", memory: int, sm: int | None = None
    ) -> int:
        """Start a process that is no pod's, on one GPU; returns its PID."""
        pid = self.processes.start(cgroup, "outsider")
        self.holders[pid] = Unattributed(reason, unit)
        self.list_process(gpu, pid, memory=memory, sm=sm)
        return pid

    def list_process(
        self, gpu: Gpu, pid: int, *, memory: int | None, sm: int | None = None, mig: MigDevice | None = None
    ) -> None:
        """Have NVML list the PID on the GPU."""
        instances = (mig.gpu_instance, mig.compute_instance) if mig else (None, None)
        gpu.processes.append(
            Process(pid=pid, memory=memory, sm=sm, gpu_instance=instances[0], compute_instance=instances[1])
        )

    def end(self, pid: int) -> None:
        """End a process, on its GPUs too."""
        self.processes.end(pid)
        self.unlist(pid)

    def unlist(self, pid: int) -> None:
        """Have NVML list the PID no more."""
        for gpu in self.scenario.gpus:
            gpu.processes = [process for process in gpu.processes if process.pid != pid]

    def remove(self, tenant: Tenant) -> None:
        """End a pod and all that the node knows of it."""
        for pid in [pid for pid, holder in self.holders.items() if holder == tenant.owner]:
            self.end(pid)
            del self.holders[pid]
        self.tenants.remove(tenant)
        (self.container_logs / tenant.log_link).unlink()
        shutil.rmtree(self.pod_logs / _log_folder(tenant))

    def publish(self) -> None:
        """Tell the exporter's sources the present state."""
        for gpu in self.scenario.gpus:
            _settle_memory(gpu)
        self.scenario.write(self.scenario_file)
        self.kubelet.pods = kubelet.pod_list(
            *(
                kubelet.pod(
                    tenant.namespace,
                    tenant.controlled.pod,
                    kubelet.container(tenant.container, kubelet.devices(tenant.resource, *tenant.devices)),
                )
                for tenant in self.tenants
                if tenant.devices
            )
        )
        whole = [gpu.uuid for gpu in self.scenario.gpus if not gpu.migs and not gpu.lost]
        self.kubelet.allocatable = kubelet.allocatable(kubelet.devices("nvidia.com/gpu", *whole))
        if self._api is not None:
            self._publish_api(self._api)

    def serve_api(self, tls: tuple[Path, Path] | None = None) -> tuple[ApiServer, tuple[str, ...]]:
        """Start the Kubernetes API; returns it, and the flags by which the exporter finds it.

        `tls` (certificate, key) makes it HTTPS.
        """
        self._api = self._cleanup.enter_context(ApiServer(tls))
        config = self._api.kubeconfig(self.folder / "kubeconfig")
        self.publish()
        return self._api, ("--kube=kubeconfig", f"--kubeconfig={config}")

    def _publish_api(self, api: ApiServer) -> None:
        objects = {(o["kind"], o["metadata"]["uid"]): o for t in self.tenants for o in api_objects(t)}
        for key, known in list(self._in_api.items()):
            if key not in objects:
                api.delete(self._in_api.pop(key))
            elif known == objects[key]:
                del objects[key]
        for key, changed in objects.items():
            api.update(changed)
            self._in_api[key] = changed

    def memory(self) -> dict[tuple[str, MigUuid, Holder], int | None]:
        """How much of each GPU (or MIG device) each holder uses, in bytes; None with a part that is unknown."""
        used: dict[tuple[str, MigUuid, Holder], int | None] = {}
        for gpu in self.scenario.gpus:
            migs = {(mig.gpu_instance, mig.compute_instance): MigUuid(mig.uuid) for mig in gpu.migs}
            for process in gpu.processes:
                mig = migs.get((process.gpu_instance, process.compute_instance), MigUuid(""))
                key = (gpu.uuid, mig, self.holders[process.pid])
                before, more = used.get(key, 0), process.memory
                used[key] = None if before is None or more is None else before + more
        return used

    def _write_logs(self, tenant: Tenant) -> None:
        log = self.pod_logs / _log_folder(tenant) / tenant.container / "0.log"
        log.parent.mkdir(parents=True)
        log.touch()
        (self.container_logs / tenant.log_link).symlink_to(log)


def _log_folder(tenant: Tenant) -> str:
    return f"{tenant.namespace}_{tenant.controlled.pod}_{tenant.uid}"


def _settle_memory(gpu: Gpu) -> None:
    """Make the memory of a GPU and its MIG devices what their processes and the driver use together."""
    for mig in gpu.migs:
        place = (mig.gpu_instance, mig.compute_instance)
        _use_memory(mig, _listed(p for p in gpu.processes if (p.gpu_instance, p.compute_instance) == place))
    _use_memory(gpu, sum(mig.memory_used or 0 for mig in gpu.migs) if gpu.migs else _listed(gpu.processes))


def _listed(processes: Iterable[Process]) -> int:
    """The processes' memory, each counted once in whatever lists it is."""
    return sum({process.pid: process.memory or 0 for process in processes}.values())


def _use_memory(device: Readings, by_processes: int) -> None:
    assert device.memory_total is not None
    device.memory_used = by_processes + DRIVER_SHARE
    device.memory_free = device.memory_total - (device.memory_reserved or 0) - device.memory_used
