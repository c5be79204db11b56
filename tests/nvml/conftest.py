"""This process meets the NVML stand-in: pynvml finds by its name the library that is loaded already."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest

from fakes.nvml.build import build_library
from fakes.nvml.scenario import Scenario


@pytest.fixture(scope="session")
def library() -> Path:
    return build_library()


@pytest.fixture
def scenario_file(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the library looks for its scenario; NVML is shut down at the end."""
    path = tmp_path / "scenario"
    monkeypatch.setenv("NVML_STANDIN_SCENARIO", str(path))
    ctypes.CDLL(str(library))
    yield path
    Scenario().write(path)  # without faults
    with suppress(pynvml.NVMLError_Uninitialized):
        while True:
            pynvml.nvmlShutdown()


@pytest.fixture
def play(scenario_file: Path) -> Callable[[Scenario], None]:
    """Gives NVML a scenario; the first initialises it."""
    initialized = False

    def write(scenario: Scenario) -> None:
        nonlocal initialized
        scenario.write(scenario_file)
        if not initialized:
            pynvml.nvmlInit()
            initialized = True

    return write
