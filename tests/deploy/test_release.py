"""The release: what is in it, that it is the same each time, and that all agree on the version."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gpuledger import __version__

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuledger"
EPOCH = 1_700_000_000

LOCKED = dict(
    re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
)
DIRECT = {
    re.split("[><=]", requirement)[0]
    for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
}


def build(folder: Path) -> Path:
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = [sys.executable, str(ROOT / "release" / "build.py"), str(folder)]
    subprocess.run(command, check=True, env=environ, capture_output=True, timeout=100)
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def wheel(release: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(release / f"gpuledger-{__version__}-py3-none-any.whl") as archive:
        yield archive


@pytest.fixture(scope="module")
def sbom(release: Path) -> Any:
    return json.loads((release / f"gpuledger-{__version__}.cdx.json").read_text())


def test_a_release_is_five_files_with_their_checksums(release: Path) -> None:
    lines = [line.split("  ") for line in (release / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}

    assert [
        f"gpuledger-{__version__}-py3-none-any.whl",
        f"gpuledger-{__version__}.cdx.json",
        f"gpuledger-{__version__}.tar.gz",
        f"gpuledger-{__version__}.tgz",
    ] == sorted(sums)
    assert {*sums, "SHA256SUMS"} == {path.name for path in release.iterdir()}
    for name, digest in sums.items():
        assert digest == hashlib.sha256((release / name).read_bytes()).hexdigest(), name


def test_the_same_tree_makes_the_same_bytes(release: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "again")

    assert (release / "SHA256SUMS").read_text() == (again / "SHA256SUMS").read_text()


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "exporter"
    package = {
        str(path.relative_to(source))
        for path in (source / "gpuledger").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"gpuledger-{__version__}.dist-info"

    assert package == {name for name in wheel.namelist() if not name.startswith(f"{info}/")}


def test_the_wheel_says_what_it_is_and_needs(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(wheel.read(f"gpuledger-{__version__}.dist-info/METADATA").decode())

    assert __version__ == metadata["Version"]
    assert "Apache-2.0" == metadata["License-Expression"]
    assert DIRECT == {re.split("[><=]", each)[0] for each in metadata.get_all("Requires-Dist", [])}


def test_the_sdist_holds_what_builds_and_tests_it(release: Path) -> None:
    with tarfile.open(release / f"gpuledger-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    needed = (
        "tests",
        "rules",
        "dashboards",
        "docs",
        "deploy/compose",
        "deploy/verify",
        "release",
        "requirements",
    )
    for folder in needed:
        for path in (ROOT / folder).rglob("*.*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(ROOT)) in names
    assert {"Makefile", "pyproject.toml", "LICENSE", "README.md", "PKG-INFO"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", "dist/"))]


def test_helm_reads_the_package_and_finds_what_the_chart_links_to(release: Path) -> None:
    chart = helm_python.Chart.load(release / f"gpuledger-{__version__}.tgz")

    assert ("gpuledger", __version__) == (chart.name, chart.version)
    files = {each["name"] for each in chart.files}
    assert {f"rules/{path.name}" for path in (ROOT / "rules").glob("*.yaml")} <= files
    assert {f"dashboards/{path.name}" for path in (ROOT / "dashboards").glob("*.json")} <= files
    assert not [name for name in files if name.endswith(".py")]


def test_the_bill_of_materials_is_cyclonedx(sbom: Any) -> None:
    assert None is JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom))


def test_the_bill_of_materials_lists_what_is_locked(sbom: Any) -> None:
    root = sbom["metadata"]["component"]
    names = {part["bom-ref"]: part["name"] for part in sbom["components"]}
    (direct,) = (each["dependsOn"] for each in sbom["dependencies"] if each["ref"] == root["bom-ref"])

    assert ("gpuledger", __version__) == (root["name"], root["version"])
    assert {part["name"]: part["version"] for part in sbom["components"]} == LOCKED
    assert DIRECT == {names[reference] for reference in direct}


def test_all_agree_on_the_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    tag = yaml.safe_load((CHART / "values.yaml").read_text())["image"].get("tag")
    manifests = (ROOT / "deploy" / "manifests" / "gpuledger.yaml").read_text()
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert (__version__, __version__) == (chart["version"], chart["appVersion"])
    assert tag in (None, "", __version__)
    assert {__version__} == set(re.findall(r"^ +image: \S+:(\S+)$", manifests, re.MULTILINE))
    assert headings[0] in ("Unreleased", __version__)
    assert all(released == __version__ or _number(released) < _number(__version__) for released in headings[1:])


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
