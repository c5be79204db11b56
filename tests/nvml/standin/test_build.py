"""The library has NVML's ABI, and lacks what a test wants it to lack."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pynvml
import pytest

from fakes.nvml.build import SOURCES, build_library, read_header
from fakes.nvml.environment import environment
from fakes.nvml.presets import node
from fakes.nvml.scenario import Readings

TEMPERATURE = """
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
for read in (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature):
    try:
        print(read(gpu, pynvml.NVML_TEMPERATURE_GPU))
    except pynvml.NVMLError_FunctionNotFound:
        print("not found")
"""


def exported(library: Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    )
    return set(re.findall(r" T (\w+)", listing.stdout))


def test_exports_exactly_what_the_header_declares(library: Path) -> None:
    declared = re.findall(r"^[^*#\n]*\bDECLDIR\s[^(]*?(nvml\w+)\s*\(", read_header().read_text(), re.MULTILINE)
    assert set(declared) == exported(library)


def test_exports_whatever_pynvml_calls(library: Path) -> None:
    called = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', Path(pynvml.__file__).read_text()))
    assert called - exported(library) == set()


def test_scenario_names_the_readings_that_the_library_knows() -> None:
    macros = re.findall(
        r"#define (?:READINGS|TEXTS)\(X\)((?:.*\\\n)*.*\n)", (SOURCES / "standin.h").read_text()
    )
    known = {name for macro in macros for name in re.findall(r"X\((\w+)\)", macro)}
    assert known == set(Readings.__dataclass_fields__)


def test_omitted_function_is_not_found(tmp_path: Path) -> None:
    older = build_library(omit=["nvmlDeviceGetTemperatureV"])
    scenario = tmp_path / "scenario"
    node(1).write(scenario)
    told = subprocess.run(
        [sys.executable, "-c", TEMPERATURE],
        env=environment(older, scenario),
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout == "not found\n56\n"


def test_omitting_what_the_header_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="declares no nvmlDeviceGetMood"):
        build_library(omit=["nvmlDeviceGetMood"])


def test_builders_at_the_same_time_share_one_result(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(build_library, [tmp_path, tmp_path])
    assert (first, [first.parent]) == (second, list(tmp_path.iterdir()))
    assert exported(first)
