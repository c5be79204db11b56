"""Builds the image without a registry, as an OCI archive in `.cache/image`: `python tests/tools/image.py`.

The bases are Debian's packages: debootstrap makes the one that builds; the one that runs is unpacked from those
that the Dockerfile's own, distroless python3-debian12, consists of. Wheels are downloaded beforehand, by the
locks' hashes, so that the build itself asks nobody.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gpuledger

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "image"
NAME = f"localhost/gpuledger:{gpuledger.__version__}"
SUITE = "bookworm"

LOCKS = (ROOT / "requirements" / "build.txt", ROOT / "requirements" / "image.txt")
INPUTS = (ROOT / "Dockerfile", *LOCKS, ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE")

RUNTIME_PACKAGES = (
    *(
        "base-files",
        "tzdata",
        "media-types",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
        "zlib1g",
        "libbz2-1.0",
        "liblzma5",
    ),
    *("libssl3", "libexpat1", "libffi8", "libuuid1"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "python3-minimal"),
)


def archive() -> Path:
    """The image of what the working tree holds, built if it has not been."""
    target = CACHE / f"gpuledger-{_digest()}.tar"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob("gpuledger-*.tar"):
            old.unlink()
        _build(target)
    return target


def _digest() -> str:
    digest = hashlib.sha256()
    for path in _inputs():
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _inputs() -> Iterator[Path]:
    yield from INPUTS
    sources = sorted((ROOT / "exporter" / "gpuledger").rglob("*"))
    yield from (path for path in sources if path.is_file() and "__pycache__" not in path.parts)


def _build(target: Path) -> None:
    bases = {"BUILD_IMAGE": _build_base(), "RUNTIME_IMAGE": _runtime_base()}
    wheels = _wheels()
    settings = CACHE / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    revision = _output("git", "-C", str(ROOT), "rev-parse", "HEAD")
    arguments = {**bases, "VERSION": gpuledger.__version__, "REVISION": revision}
    _buildah(
        *("build", "--quiet", "--isolation=chroot", f"--tag={NAME}"),
        *(f"--volume={wheels}:/wheels:ro", f"--volume={settings}:/etc/pip.conf:ro"),
        *(f"--build-arg={name}={value}" for name, value in arguments.items()),
        str(ROOT),
    )
    part = target.with_suffix(".part")
    _buildah("push", "--quiet", NAME, f"oci-archive:{part}:{NAME}")
    part.rename(target)
    _buildah("rmi", "--prune", "--force")


def _build_base() -> str:
    """Debian with Python and pip."""
    folder = CACHE / SUITE
    if (
        not (folder / "usr/bin/python3").exists() or (folder / "debootstrap").exists()
    ):  # which goes when it is done
        shutil.rmtree(folder, ignore_errors=True)
        packages = "--include=python3,python3-venv"
        _run("debootstrap", "--variant=minbase", packages, SUITE, str(folder), *_mirror())
    return _base("gpuledger-build", folder)


def _runtime_base() -> str:
    """Python and what it is linked with; no shell, no package manager."""
    folder = CACHE / "runtime"
    for package in RUNTIME_PACKAGES:
        (deb,) = (CACHE / SUITE / "var/cache/apt/archives").glob(f"{package}_*.deb")
        _run("dpkg-deb", "--extract", str(deb), str(folder))
    return _base("gpuledger-runtime", folder)


def _base(name: str, folder: Path) -> str:
    """The folder as an image that a Dockerfile can begin from; made once."""
    if _buildah("images", "--quiet", "--filter", f"reference=localhost/{name}"):
        return f"localhost/{name}"
    container = _buildah("from", "scratch")
    _buildah("add", "--quiet", container, str(folder), "/")
    _buildah("config", "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    _buildah("commit", "--quiet", "--rm", container, f"localhost/{name}")
    return f"localhost/{name}"


def _wheels() -> Path:
    folder = CACHE / "wheels"
    for lock in LOCKS:
        command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--require-hashes"]
        _run(*command, f"--dest={folder}", f"--requirement={lock}")
    return folder


def _mirror() -> list[str]:
    """The archive that this machine's apt uses; debootstrap has one of its own for other distributions."""
    targets = _output("apt-get", "indextargets", "--no-release-info", "--format", "$(RELEASE) $(REPO_URI)")
    return [uri for release, uri in map(str.split, targets.splitlines()) if release == SUITE][:1]


def _buildah(*arguments: str) -> str:
    store = [f"--root={CACHE / 'store'}", f"--runroot={CACHE / 'run'}", "--storage-driver=vfs"]
    return _output("buildah", *store, *arguments)


def _output(*command: str) -> str:
    return _run(*command).stdout.strip()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:6])} …: {done.stderr[-2000:]}")
    return done


if __name__ == "__main__":
    sys.stdout.write(f"{archive()}\n")
