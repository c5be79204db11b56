"""What a node's own files say of its processes: the corpus in tests/fixtures/nodes, a folder for each node.

A folder holds `cgroups/<pid>` (/proc/<pid>/cgroup), `containers.txt` (the links of /var/log/containers, as
`name -> target`), `pods.txt` (the folders in /var/log/pods, as `find` prints them) and `expected.toml`: what
each process's cgroup must be read as. Adding a capture is adding a folder.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuledger.core.model import Cgroup

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parents[1] / "fixtures" / "nodes"
NODES = sorted(path.name for path in FOLDER.iterdir())


@dataclass(frozen=True)
class Node:
    """A node's captured files, and what they mean."""

    cgroups: Mapping[int, str]
    expected: Mapping[int, Cgroup]
    root_is_host: bool
    links: Mapping[str, str]
    pod_dirs: tuple[str, ...]


def read_node(name: str) -> Node:
    """Read the folder `name` of the corpus."""
    folder = FOLDER / name
    expected = tomllib.loads((folder / "expected.toml").read_text())
    private = expected.pop("private_cgroup_namespace", False)
    links = (line.partition(" -> ")[::2] for line in (folder / "containers.txt").read_text().splitlines())
    return Node(
        cgroups={
            int(path.name): path.read_bytes().decode(errors="surrogateescape")
            for path in (folder / "cgroups").iterdir()
        },
        expected={int(pid): _cgroup(values) for pid, values in expected.items()},
        root_is_host=not private,
        links=dict(links),
        pod_dirs=tuple(line.removeprefix("./") for line in (folder / "pods.txt").read_text().splitlines()),
    )


def _cgroup(values: dict[str, Any]) -> Cgroup:
    outer = values.pop("outer", None)
    return Cgroup(**values, outer=_cgroup(outer) if outer else None)
