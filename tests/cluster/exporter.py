"""The exporter on this node, with NVML's stand-in for a driver."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fakes.nvml.build import build_library
from fakes.nvml.environment import environment
from tools.daemon import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.gpus import NodeGpus
    from cluster.node import Node


@contextlib.contextmanager
def exporting(node: Node, gpus: NodeGpus, folder: Path, *flags: str) -> Iterator[str]:
    """The address of an exporter that runs as a process of this machine."""
    command = [
        str(Path(sys.executable).parent / "gpuledger"),
        "node",
        "--web.listen-address=127.0.0.1:0",
        f"--node-name={node.name}",
        f"--path.podresources={node.podresources}",
        *flags,
    ]
    variables = environment(build_library(), gpus.scenario_file)
    with Daemon(command, folder / "exporter.log", variables) as exporter:
        yield exporter.address()
