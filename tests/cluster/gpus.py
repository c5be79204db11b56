"""The node's GPUs: what its kubelet may hand out, and who runs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fakes.nvml.presets import a100_mig, h100
from fakes.nvml.scenario import Gpu, MigDevice, Process, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cluster.containers import RunningContainer

Device: TypeAlias = tuple[Gpu, MigDevice | None]
"""A GPU, or a MIG device of it."""


SM_RATIO = 0.1
"""Share of time in which each process runs kernels; NVML does not tell it of processes on MIG devices."""


def memory_of(pid: int) -> int:
    """GPU memory in bytes that a process is given, different for each."""
    return 2**30 + 4096 * pid


class NodeGpus:
    """Five whole GPUs, one that is shared, one in MIG mode, and a spare one that nobody is given."""

    def __init__(self, scenario_file: Path) -> None:
        self.scenario_file = scenario_file
        self._whole = [h100(index) for index in range(5)]
        self._shared = h100(5)
        self._mig = a100_mig(6, ("1g.5gb", "1g.5gb"))
        self._spare = h100(7)
        self._scenario = Scenario(gpus=[*self._whole, self._shared, self._mig, self._spare])

    @property
    def offers(self) -> Mapping[str, list[str]]:
        """Device ids by resource, as NVIDIA's device plugin makes them."""
        return {
            "nvidia.com/gpu": [gpu.uuid for gpu in self._whole],
            "nvidia.com/gpu.shared": [f"{self._shared.uuid}::{replica}" for replica in range(2)],
            "nvidia.com/mig-1g.5gb": [mig.uuid for mig in self._mig.migs],
        }

    def devices_of(self, container: RunningContainer) -> list[Device]:
        """Where the container's processes run: on what it was given, else, unasked, on the spare GPU."""
        return [self._device(device_id) for device_id in container.devices] or [(self._spare, None)]

    def run(self, containers: Iterable[RunningContainer], host_pids: Iterable[int] = ()) -> None:
        """Show just these: each container's processes on its devices, the host's on the spare GPU."""
        for gpu in self._scenario.gpus:
            gpu.processes.clear()
        for container in containers:
            for gpu, mig in self.devices_of(container):
                gpu.processes += [_process(pid, mig) for pid in container.pids]
        self._spare.processes += [_process(pid, None) for pid in host_pids]
        self._scenario.write(self.scenario_file)

    def _device(self, device_id: str) -> Device:
        uuid = device_id.partition("::")[0]
        devices: list[Device] = [(gpu, None) for gpu in self._scenario.gpus]
        devices += [(self._mig, mig) for mig in self._mig.migs]
        return next((gpu, mig) for gpu, mig in devices if (mig or gpu).uuid == uuid)


def _process(pid: int, mig: MigDevice | None) -> Process:
    memory = memory_of(pid)
    if mig is None:
        return Process(pid=pid, memory=memory, sm=round(100 * SM_RATIO))
    return Process(pid=pid, memory=memory, gpu_instance=mig.gpu_instance, compute_instance=mig.compute_instance)
