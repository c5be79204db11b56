"""What a GPU is: facts that hold as long as its handle."""

from __future__ import annotations

from collections.abc import Callable

import pynvml

from gpuledger.sources.nvml.driver import Calls, Handle

_ARCHITECTURES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}


def _architecture(handle: Handle) -> str:
    number = pynvml.nvmlDeviceGetArchitecture(handle)
    return _ARCHITECTURES.get(number, f"unknown ({number})")


def _pci_bus_id(handle: Handle) -> str:
    return str(pynvml.nvmlDeviceGetPciInfo_v3(handle).busId)


def _driver_version(_handle: Handle) -> str:
    return str(pynvml.nvmlSystemGetDriverVersion())


def _cuda_version(_handle: Handle) -> str:
    version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{version // 1000}.{version % 1000 // 10}"


_FACTS: dict[str, Callable[[Handle], str]] = {
    "model": pynvml.nvmlDeviceGetName,
    "architecture": _architecture,
    "pci_bus_id": _pci_bus_id,
    "driver_version": _driver_version,
    "cuda_version": _cuda_version,
    "vbios_version": pynvml.nvmlDeviceGetVbiosVersion,
}


def read_info(calls: Calls, known: dict[str, str]) -> dict[str, str]:
    """`known` with those facts added that were still missing and are told now."""
    asked = {fact: calls.ask(read, read, calls.handle) for fact, read in _FACTS.items() if fact not in known}
    return known | {fact: text for fact, text in asked.items() if text is not None}
