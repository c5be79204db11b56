"""Two ways to a GPU node's figures for node.py to compare with: `python node_sides.py naive|floor`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable

import psutil
import pynvml
from prometheus_client import Gauge, start_http_server

from gpuledger.sources.nvml.driver import Calls
from gpuledger.sources.nvml.memory import memory_v2
from gpuledger.sources.nvml.plausible import Values
from gpuledger.sources.nvml.processes import ProcessLists
from gpuledger.sources.nvml.readings import READINGS, Reading, Tier
from gpuledger.sources.nvml.samples import UseSamples

DEVICE = ("gpu", "uuid")
PROCESS = (*DEVICE, "pid", "name")


def naive() -> Callable[[], None]:
    """What one writes in an afternoon: a gauge for each reading and process, set each second."""
    gauges = {row: Gauge(f"naive_{i}", row.series[0][0], DEVICE) for i, row in enumerate(_fast())}
    used = Gauge("naive_memory", "Bytes.", DEVICE)
    process_memory = Gauge("naive_process_memory", "Bytes.", PROCESS)
    process_use = Gauge("naive_process_sm", "Percent.", PROCESS)
    start_http_server(0, "127.0.0.1")

    def cycle() -> None:
        process_memory.clear()
        process_use.clear()
        for index in range(pynvml.nvmlDeviceGetCount()):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            labels = (str(index), pynvml.nvmlDeviceGetUUID(gpu))
            for row, gauge in gauges.items():
                gauge.labels(*labels).set(row.parse(row.calls[0](gpu, *row.args))[0] or 0.0)
            used.labels(*labels).set(pynvml.nvmlDeviceGetMemoryInfo(gpu).used)
            names = {}
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu):
                names[process.pid] = psutil.Process(process.pid).name()
                process_memory.labels(*labels, process.pid, names[process.pid]).set(process.usedGpuMemory)
            for sample in pynvml.nvmlDeviceGetProcessUtilization(gpu, 0) if names else ():
                process_use.labels(*labels, sample.pid, names.get(sample.pid, "")).set(sample.smUtil)

    return cycle


def floor() -> Callable[[], None]:
    """The calls that gpuledger makes of each GPU in each cycle, and nothing else: who makes them, pays this."""
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    calls = Calls(None)
    lists, samples = ProcessLists(calls), UseSamples(calls, Values(Counter()))

    def cycle() -> None:
        now = time.time()
        for calls.handle in gpus:
            for row in _fast():
                row.calls[0](calls.handle, *row.args)
            memory_v2(calls.handle)
            lists.read()
            samples.of_gpu(now)
            samples.of_processes(now)

    return cycle


def _fast() -> list[Reading]:
    return [row for row in READINGS if row.tier is Tier.FAST]


def main() -> None:
    """Run the side's cycle each second, until it is ended."""
    pynvml.nvmlInit()
    cycle = {"naive": naive, "floor": floor}[sys.argv[1]]()
    while True:
        began = time.monotonic()
        cycle()
        time.sleep(max(0.0, began + 1 - time.monotonic()))


if __name__ == "__main__":
    main()
