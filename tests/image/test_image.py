"""The built image runs both roles as the chart says: user, read-only root, no capability, seccomp."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

import gpuledger
from fakes.apiserver import ApiServer
from fakes.certificates import make_certificate
from fakes.clusterview import node as node_object
from fakes.clusterview import pod as pod_object
from fakes.nvml import presets
from fakes.nvml.build import build_library
from fakes.tenants import NODE, stateful_set
from fakes.world import MIB, World
from image.bundle import Container, Image, unpack
from tools.chart import only, render
from tools.confinement import assert_confined, pid_namespace
from tools.daemon import until
from tools.exposition import Exposition
from tools.image import archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

LARGEST_MB = 90
"""Unpacked; 77 when written. dcgm-exporter has over 1000."""

STANDIN = {
    "extraEnv": [
        {"name": "LD_LIBRARY_PATH", "value": "/opt/nvml"},
        {"name": "NVML_STANDIN_SCENARIO", "value": "/opt/world/nvml.scenario"},
    ],
    "extraVolumes": [
        {"name": "nvml", "hostPath": {"path": "/opt/nvml"}},
        {"name": "world", "hostPath": {"path": "/opt/world"}},
    ],
    "extraVolumeMounts": [
        {"name": "nvml", "mountPath": "/opt/nvml", "readOnly": True},
        {"name": "world", "mountPath": "/opt/world", "readOnly": True},
    ],
}


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return unpack(archive(), tmp_path_factory.mktemp("image"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A node with a pod on its first GPU, whose kubelet and logs only root may open, as on real nodes."""
    folder = tmp_path / "world"
    folder.mkdir(mode=0o755)
    with World(folder, presets.node(2)) as world:
        gpu = world.scenario.gpus[0]
        world.run(world.admit(stateful_set("train"), gpu.uuid), gpu, memory=4_000 * MIB, sm=40)
        world.publish()
        world.socket.chmod(0o600)
        yield world


def run_node(image: Image, world: World, folder: Path, **values: object) -> Container:
    """The node role on that node, by the chart with these values for `node`."""
    host = folder / "host"
    places = {
        "var/log/pods": world.pod_logs,
        "var/log/containers": world.container_logs,
        "var/lib/kubelet/pod-resources": world.folder,
        "opt/nvml": build_library().parent,
        "opt/world": world.folder,
    }
    for path, place in places.items():
        (host / path).parent.mkdir(parents=True, exist_ok=True)
        (host / path).symlink_to(place)
    flags = ["--web.listen-address=127.0.0.1:0", "--interval=200ms"]
    objects = render({"node": {"api": False, "extraArgs": flags, **STANDIN, **values}})
    template = only(objects, "DaemonSet")["spec"]["template"]
    return Container(image, template, folder, host=host, fields={"spec.nodeName": NODE})


def scrape(container: Container) -> Exposition:
    with urllib.request.urlopen(f"http://{container.address(60)}/metrics", timeout=10) as answer:
        return Exposition(answer.read().decode())


def told_but_by(page: Exposition, silent: set[str]) -> Exposition | None:
    """The page once every source is up but those, and it shows what the others told."""
    down = {sample.labels["source"] for sample in page.series("source_up") if sample.value == 0}
    told = page.series("container_memory_used_bytes")
    held = page.series("container_allocated") or "podresources" in silent
    return page if down == silent and told and held else None


def test_node_role_runs_as_root_without_any_right_and_tells_who_is_on_the_gpu(
    image: Image, world: World, tmp_path: Path
) -> None:
    with run_node(image, world, tmp_path) as container:
        page = until(lambda: told_but_by(scrape(container), set()), 60, container.log)
        assert_confined(container.pid, user=0)
        assert pid_namespace("self") == pid_namespace(container.pid)
        owner = {"namespace": "team-a", "pod": "train-0", "container": "main", "node": NODE}
        assert 4_000 * MIB == page.value("container_memory_used_bytes", **owner)
        assert 1 == page.value("container_allocated", **owner)
        assert 0 == container.stop()


def test_node_role_without_podresources_needs_no_root_and_loses_allocations_alone(
    image: Image, world: World, tmp_path: Path
) -> None:
    with run_node(image, world, tmp_path, podResources=False) as container:
        page = until(lambda: told_but_by(scrape(container), {"podresources"}), 60, container.log)
        assert_confined(container.pid, user=65532)
        assert 4_000 * MIB == page.value("container_memory_used_bytes", pod="train-0", container="main")
        assert [] == page.series("container_allocated")


def test_cluster_role_runs_as_nobody_and_speaks_to_the_api_by_its_service_account(
    image: Image, tmp_path: Path
) -> None:
    account = tmp_path / "account"
    account.mkdir(mode=0o755)
    certificate, key = make_certificate(tmp_path)
    (account / "ca.crt").write_text(certificate.read_text())
    (account / "token").write_text("secret")
    template = only(render({"cluster": {"extraArgs": ["--web.listen-address=127.0.0.1:0"]}}), "Deployment")[
        "spec"
    ]["template"]
    with ApiServer(tls=(certificate, key), tokens={"secret"}) as api:
        api.add(node_object("h1", 8))
        api.add(pod_object("train-0", 6, "h1"))
        port = api.url.rpartition(":")[2]
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        mounts = {"/var/run/secrets/kubernetes.io/serviceaccount": account}
        with Container(
            image, template, tmp_path, host=tmp_path, fields={}, env=env, mounts=mounts
        ) as container:
            until(lambda: scrape(container).series("node_resource_free"), 60, container.log)
            assert_confined(container.pid, user=65532)
            assert pid_namespace("self") != pid_namespace(container.pid)
            assert 2 == scrape(container).value("node_resource_free", node="h1", resource="nvidia.com/gpu")
            assert 0 == container.stop()


def test_nothing_in_it_builds_installs_or_opens_a_shell(image: Image) -> None:
    programs = ("sh", "bash", "dash", "busybox", "pip", "pip3", "apt-get", "dpkg", "gcc", "cc", "ld", "curl")
    names = {
        path.name
        for folder in ("bin", "usr/bin", "usr/local/bin", "opt/gpuledger/bin", "sbin")
        for path in (image.rootfs / folder).glob("*")
    }
    assert set() == names & set(programs)
    packages = {path.name.partition("-")[0] for path in (image.rootfs / "opt/gpuledger").iterdir()}
    assert set() == packages & {"pip", "setuptools", "wheel", "hatchling", "kubernetes"}


def test_it_is_small(image: Image) -> None:
    files = [path.lstat() for path in image.rootfs.rglob("*")]
    assert sum(each.st_size for each in files) / 1e6 < LARGEST_MB


def test_all_of_it_is_compiled_because_it_cannot_be_later(image: Image) -> None:
    folder = image.rootfs / "opt/gpuledger"
    compiled = {path.parent.parent / f"{path.name.split('.')[0]}.py" for path in folder.rglob("*.pyc")}
    assert set(folder.rglob("*.py")) == compiled


def test_it_says_what_it_is_and_is_nobody_by_default(image: Image) -> None:
    assert "65532:65532" == image.config["User"]
    assert ["gpuledger"] == image.config["Entrypoint"]
    labels = image.config["Labels"]
    assert gpuledger.__version__ == labels["org.opencontainers.image.version"]
    assert "Apache-2.0" == labels["org.opencontainers.image.licenses"]


def test_every_command_starts(image: Image) -> None:
    for command in ("node", "cluster", "audit", "demo"):
        python = ["chroot", "--userspec=65532:65532", str(image.rootfs), "/usr/bin/python3", "-m", "gpuledger"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": "/opt/gpuledger"}
        done = subprocess.run([*python, command, "--help"], env=env, capture_output=True, check=False)
        assert (0, b"") == (done.returncode, done.stderr)
