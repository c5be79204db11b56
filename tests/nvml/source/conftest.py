"""An NVML source over the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.nvml.gpu_node import GpuNode


@pytest.fixture
def node(scenario_file: Path) -> Iterator[GpuNode]:
    node = GpuNode(scenario_file)
    yield node
    node.source.close()
