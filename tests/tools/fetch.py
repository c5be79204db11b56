"""Brings the real tools that tests run (Prometheus, Alertmanager, strace, libfaketime …) into `.cache/tools`.

They are Debian's (or Ubuntu's) own packages, from the mirror that this machine's apt already uses, of the
release that the table names: apt checks the archive's signature and `dpkg-deb` unpacks. Nothing is installed,
so no service starts and no root is needed. `python tests/tools/fetch.py prometheus-3 …` prints where each
lies; without names it brings them all.
"""

from __future__ import annotations

import fcntl
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE = Path(__file__).parents[2] / ".cache" / "tools"

DISTRIBUTIONS = {
    "debian": ("main", "/usr/share/keyrings/debian-archive-keyring.gpg"),
    "ubuntu": ("main universe", "/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
}
"""Per distribution: the archive's components that hold the tools, and the keyring that signs it."""


class FetchError(Exception):
    """A tool could not be had; the message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Packages of one source, and by distribution the suite where their version starts with `version`."""

    packages: tuple[str, ...]
    version: str
    suites: Mapping[str, str]


TOOLS = {
    "prometheus-2": Tool(("prometheus",), "2.", {"debian": "bookworm", "ubuntu": "noble"}),
    "prometheus-3": Tool(("prometheus", "promtool"), "3.", {"debian": "forky", "ubuntu": "devel"}),
    "strace-6": Tool(("strace", "libunwind8"), "6.", {"debian": "bookworm", "ubuntu": "noble"}),
    "faketime-0": Tool(("libfaketime",), "0.", {"debian": "bookworm", "ubuntu": "noble"}),
    "alertmanager-0": Tool(("prometheus-alertmanager",), "0.", {"debian": "forky", "ubuntu": "noble"}),
}
"""Two ages of Prometheus on purpose: one that stable distributions run, and 3.x with its stricter parser."""


def tool(name: str) -> Path:
    """Return the folder where the tool named in `TOOLS` is unpacked (`usr/bin` below it); fetch it once.

    Raises FetchError where this machine's mirror doesn't carry it.
    """
    if name not in TOOLS:
        raise FetchError(f"no tool {name!r}; there are: {', '.join(TOOLS)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        present = sorted(CACHE.glob(f"{name}.*/usr"))
        return present[-1].parent if present else _fetch(name)


def binary(name: str, program: str) -> Path:
    """Return the path of a program of the tool, such as `binary("prometheus-3", "promtool")`."""
    return tool(name) / "usr" / "bin" / program


def _fetch(name: str) -> Path:
    """Download and unpack the tool into `.cache/tools/<package>-<version>`, whole or not at all."""
    wanted = TOOLS[name]
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as folder:
        scratch = Path(folder)
        apt = _private_apt(name, scratch)
        _run(name, "apt-get", *apt, "-qq", "update")
        found = _run(name, "apt-cache", *apt, "show", "--no-all-versions", wanted.packages[0])
        version = next(line.split()[1] for line in found.splitlines() if line.startswith("Version:"))
        if not version.startswith(wanted.version):
            suite = wanted.suites[_distribution()]
            raise FetchError(f"{name}: {suite} has version {version}; name another suite in TOOLS")
        _run(name, "apt-get", *apt, "-qq", "download", *wanted.packages, cwd=scratch)
        unpacked = scratch / "unpacked"
        for package in scratch.glob("*.deb"):
            _run(name, "dpkg-deb", "--extract", str(package), str(unpacked))
        number = version.split("+")[0].split("-")[0]
        return unpacked.rename(CACHE / f"{name.partition('-')[0]}-{number}")


def _private_apt(name: str, scratch: Path) -> list[str]:
    """Return apt options for lists of our own, so that the machine's own sources stay as they are."""
    distribution = _distribution()
    components, keyring = DISTRIBUTIONS[distribution]
    for folder in ("lists/partial", "archives/partial", "sources"):
        (scratch / folder).mkdir(parents=True)
    (scratch / "sources/tool.sources").write_text(
        f"Types: deb\nURIs: {_mirror(name)}\nSuites: {TOOLS[name].suites[distribution]}\n"
        f"Components: {components}\nSigned-By: {keyring}\n"
    )
    options = {
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch,
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": scratch / "sources",
        "APT::Sandbox::User": "root",  # apt's own user could not write to the folders above
    }
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _mirror(name: str) -> str:
    """Return the archive that this machine's apt uses for its own release."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    known = _run(name, "apt-get", "indextargets", "--no-release-info", "--format", "$(RELEASE) $(REPO_URI)")
    mirrors = [uri for suite, uri in (line.split() for line in known.splitlines()) if suite == release]
    if not mirrors:
        raise FetchError(f"{name}: apt has no source for this machine's release {release!r}; add one")
    return mirrors[0]


def _distribution() -> str:
    distribution = platform.freedesktop_os_release()["ID"]
    if distribution not in DISTRIBUTIONS:
        known = ", ".join(DISTRIBUTIONS)
        raise FetchError(f"tools come from the archives of {known}; this is {distribution}: run in a container")
    return distribution


def _run(name: str, *command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise FetchError(f"{name}: {command[0]} failed: {said}") from error
    return done.stdout


def main(names: list[str]) -> int:
    """Fetch the tools named (all without names) and print where each lies; 1 when one can't be had."""
    try:
        for name in names or TOOLS:
            sys.stdout.write(f"{name} {tool(name)}\n")
    except FetchError as error:
        sys.stderr.write(f"fetch: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
