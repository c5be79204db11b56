# ruff: noqa: INP001 - a program beside its data, no package
"""Prints what the image needs: the dependencies but for the Kubernetes client.

That reads kubeconfig files, of which a pod has none; with what it needs in turn it is 97 MB and 24 packages.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

for dependency in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]:
    if not dependency.startswith("kubernetes"):
        print(dependency)  # noqa: T201 - what it is for
