"""The kubelet's log folders are read as they are now, and listed only when they may have changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fakes.nodes import read_node
from gpuledger.core.errors import SourceError
from gpuledger.core.model import ContainerId, LoggedContainer, LoggedPod, PodLogs, PodUid
from gpuledger.sources import podlogs
from gpuledger.sources.podlogs import PodLogsSource

UID = PodUid("2fa837fd-7da1-4896-863d-368a4ca73c2d")
CID = ContainerId("c2a243374a7f39554c08a717fcd27a8be06979128bc0221d864bdebc7108483e")
OTHER_CID = ContainerId("ead70f0f39467ab9f15573615099053a68fe114b3485790c4c3b62c436045f02")
AN_HOUR_AGO = time.time_ns() - 3_600_000_000_000


class Node:
    """The two folders, as a kubelet fills them."""

    def __init__(self, root: Path) -> None:
        self.containers = root / "containers"
        self.pods = root / "pods"
        self.containers.mkdir()
        self.pods.mkdir()
        self.source = PodLogsSource(str(self.containers), str(self.pods))

    def start(self, container: str, container_id: str) -> None:
        """Log a container of the pod `llm-0` in `inference`."""
        folder = self.pods / f"inference_llm-0_{UID}"
        (folder / container).mkdir(parents=True)
        link = self.containers / f"llm-0_inference_{container}-{container_id}.log"
        link.symlink_to(folder / container / "0.log")

    def settle(self) -> None:
        """Make the folders look as if nothing had changed for an hour."""
        for folder in (self.containers, self.pods, *self.pods.iterdir()):
            os.utime(folder, ns=(AN_HOUR_AGO, AN_HOUR_AGO))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_names_every_container_and_pod_of_a_captured_node(node: Node) -> None:
    capture = read_node("containerd-cgroupfs-v1")
    for path in capture.pod_dirs:
        (node.pods / path).mkdir()
    for link, target in capture.links.items():
        (node.containers / link).symlink_to(target)
    logs = node.source.read()
    assert (17, 13) == (len(logs.containers), len(logs.pods))
    assert LoggedContainer("inference", "llm-server-df7f55ddd-ftvjq", "server", UID) == logs.containers[CID]
    containers = ("fetch-weights", "log-shipper", "server")
    assert LoggedPod("inference", "llm-server-df7f55ddd-ftvjq", containers) == logs.pods[UID]


def test_nothing_changed_is_the_same_object(node: Node) -> None:
    node.start("server", CID)
    first = node.source.read()
    assert first is node.source.read()
    (node.containers / "not-the-kubelets").touch()
    assert first is node.source.read()


def test_a_container_that_starts_or_goes_is_noticed(node: Node) -> None:
    node.start("server", CID)
    node.settle()
    assert {CID} == node.source.read().containers.keys()
    node.start("sidecar", OTHER_CID)
    logs = node.source.read()
    assert {CID, OTHER_CID} == logs.containers.keys()
    assert ("server", "sidecar") == logs.pods[UID].containers
    (node.containers / f"llm-0_inference_server-{CID}.log").unlink()
    assert {OTHER_CID} == node.source.read().containers.keys()


def test_a_folder_that_has_not_changed_is_not_listed_again(node: Node) -> None:
    node.start("server", CID)
    node.settle()
    first = node.source.read()
    node.start("sidecar", OTHER_CID)
    node.settle()
    assert first is node.source.read()


def test_a_change_in_the_same_tick_as_the_listing_is_noticed(node: Node) -> None:
    node.start("server", CID)
    modified_at = node.containers.stat().st_mtime_ns
    assert {CID} == node.source.read().containers.keys()
    node.start("sidecar", OTHER_CID)
    os.utime(node.containers, ns=(modified_at, modified_at))
    assert {CID, OTHER_CID} == node.source.read().containers.keys()


def test_a_listing_is_not_trusted_for_ever(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start("server", CID)
    node.settle()
    node.source.read()
    node.start("sidecar", OTHER_CID)
    node.settle()
    monkeypatch.setattr(podlogs, "RESCAN_SECONDS", 0.0)
    assert {CID, OTHER_CID} == node.source.read().containers.keys()


@pytest.mark.parametrize("missing", ["containers", "pods"])
def test_one_folder_alone_is_half_the_names(node: Node, missing: str) -> None:
    node.start("server", CID)
    whole = node.source.read()
    getattr(node, missing).rename(node.pods.parent / "elsewhere")
    containers = {} if missing == "containers" else whole.containers
    pods = {} if missing == "pods" else whole.pods
    assert PodLogs(containers, pods) == node.source.read()


def test_neither_folder_is_a_failure_with_advice(tmp_path: Path) -> None:
    source = PodLogsSource(str(tmp_path / "containers"), str(tmp_path / "pods"))
    with pytest.raises(
        SourceError, match=r"^neither .*/containers nor .*/pods can be read: mount the node's /var/log"
    ):
        source.read()


def test_only_links_and_names_of_the_kubelet_count(node: Node) -> None:
    node.start("server", CID)
    (node.containers / f"llm-0_inference_file-{OTHER_CID}.log").touch()
    (node.pods / "inference_llm-1_no-uid").mkdir()
    (node.pods / f"inference_llm-0_{UID}" / "Not a Name").mkdir()
    (node.pods / os.fsdecode(b"\xff_x")).mkdir()
    logs = node.source.read()
    assert {CID} == logs.containers.keys()
    assert {UID: LoggedPod("inference", "llm-0", ("server",))} == logs.pods


def test_a_flooded_folder_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podlogs, "ENTRY_LIMIT", 3)
    node = Node(tmp_path)
    for number in range(10):
        node.start(f"c{number}", f"{number:064x}")
    assert 3 == len(node.source.read().containers)
