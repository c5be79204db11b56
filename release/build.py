# ruff: noqa: INP001 - a program, no package
"""Builds what a release consists of into an empty folder: `python release/build.py FOLDER`.

That is the sdist, the wheel built from it, the chart's package, the bill of materials (CycloneDX) of the
locked dependencies, and SHA256SUMS. The same tree gives the same bytes: times are SOURCE_DATE_EPOCH's, or the
commit's (reproducible-builds.org).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import helm_python

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "gpuledger"
LOCK = ROOT / "requirements" / "runtime.txt"


def main() -> None:
    """Build everything into the folder that the command line names."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program's name and its argument
        sys.exit("usage: release/build.py FOLDER")
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        sys.exit(f"release: {out} is not empty; name another folder")
    if "SOURCE_DATE_EPOCH" not in os.environ:
        os.environ["SOURCE_DATE_EPOCH"] = _run("git", "log", "-1", "--format=%ct").strip()
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    version = build_python(out)
    build_chart(out, epoch)
    build_sbom(out / f"gpuledger-{version}.cdx.json", version)
    write_checksums(out)


def build_python(out: Path) -> str:
    """Write the sdist and the wheel that it builds; returns their version."""
    _hatchling("sdist", out, ROOT)
    (sdist,) = out.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as unpacked, tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        _hatchling("wheel", out, source)
    return sdist.name.removeprefix("gpuledger-").removesuffix(".tar.gz")


def build_chart(out: Path, epoch: int) -> None:
    """Write the chart as Helm packages it, but for the times, which Helm takes from the clock."""
    package = Path(helm_python.package(CHART, destination=out))
    tar = io.BytesIO()
    with tarfile.open(package) as found, tarfile.open(fileobj=tar, mode="w") as fixed:
        for entry in sorted(found, key=lambda entry: entry.name):
            entry.mtime = epoch
            fixed.addfile(entry, found.extractfile(entry))
    package.write_bytes(gzip.compress(tar.getvalue(), mtime=epoch))


def build_sbom(path: Path, version: str) -> None:
    """Write the bill of materials; our version and direct dependencies, which the lock lacks, are filled in."""
    text = _run(
        *(sys.executable, "-W", "ignore::UserWarning", "-m", "cyclonedx_py", "requirements"),
        *("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", str(LOCK)),
    )
    bill = json.loads(text)
    root = bill["metadata"]["component"]
    root |= {"version": version, "purl": f"pkg:pypi/gpuledger@{version}"}
    direct = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {requirement.partition(">=")[0] for requirement in direct}
    references = sorted(part["bom-ref"] for part in bill["components"] if part["name"] in names)
    (entry,) = (each for each in bill["dependencies"] if each["ref"] == root["bom-ref"])
    entry["dependsOn"] = references
    path.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")


def write_checksums(out: Path) -> None:
    """Write what `sha256sum --check SHA256SUMS` reads."""
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines))


def _hatchling(target: str, out: Path, source: Path) -> None:
    _run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out), folder=source)


def _run(*command: str, folder: Path = ROOT) -> str:
    """What the command prints; its complaints go to standard error, and its failure ends the release."""
    return subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout  # noqa: S603 - our own words


if __name__ == "__main__":
    main()
