"""The PodResources source against a real gRPC server on a unix socket, and what happens when that fails."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from fakes.kubelet import FakeKubelet, allocatable, container, devices, pod, pod_list
from gpuledger.core.errors import SourceError
from gpuledger.core.model import Allocation, AllocationsReading, GpuUuid
from gpuledger.sources.podresources import PodResourcesSource

GPU = GpuUuid("GPU-aaaaaaaa-0000-4000-8000-000000000000")
PODS = pod_list(pod("ml", "train-0", container("trainer", devices("nvidia.com/gpu", GPU))))
ALLOCATIONS = (Allocation("ml", "train-0", "trainer", "nvidia.com/gpu", GPU, gpu_uuid=GPU),)
CAPTURE = Path(__file__).parent.parent / "fixtures" / "kube-1.36" / "podresources-list.pb"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
def source(path: Path) -> PodResourcesSource:
    return PodResourcesSource(path, timeout=5)


def test_the_kubelets_answer_is_read(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, PODS, allocatable(devices("nvidia.com/gpu", GPU, "GPU-b"))):
        assert AllocationsReading(ALLOCATIONS, {"nvidia.com/gpu": 2}) == source.read()


def test_a_real_kubelets_bytes_are_read(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, CAPTURE.read_bytes()):
        assert len(source.read().allocations) == 8


def test_a_reply_of_10_mib_is_read(path: Path, source: PodResourcesSource) -> None:
    containers = [
        container(f"c{n}", devices("nvidia.com/gpu", GPU), devices("rdma/hca", "x" * 20_000))
        for n in range(525)
    ]
    reply = pod_list(pod("ml", "train-0", *containers))
    assert len(reply) > 10 * 2**20
    with FakeKubelet(path, reply):
        assert len(source.read().allocations) == 525


def test_a_kubelet_that_does_not_tell_what_is_allocatable_is_read(
    path: Path, source: PodResourcesSource
) -> None:
    with FakeKubelet(path, PODS):
        assert AllocationsReading(ALLOCATIONS) == source.read()


def test_a_restarted_kubelet_on_a_new_socket_is_found(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, pod_list()):
        assert source.read().allocations == ()
    path.unlink(missing_ok=True)
    with FakeKubelet(path, PODS):
        assert source.read().allocations == ALLOCATIONS


def test_a_kubelet_that_was_down_is_found_again(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, PODS):
        source.read()
    with pytest.raises(SourceError):
        source.read()
    with FakeKubelet(path, PODS):
        assert source.read().allocations == ALLOCATIONS


def test_a_kubelet_that_recovers_from_an_error_is_read_again(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, PODS) as kubelet:
        kubelet.error = grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(SourceError, match="RESOURCE_EXHAUSTED: as told"):
            source.read()
        kubelet.error = None
        assert source.read().allocations == ALLOCATIONS


def test_a_missing_socket_says_what_to_mount(path: Path, source: PodResourcesSource) -> None:
    with pytest.raises(SourceError) as failure:
        source.read()
    assert f"kubelet PodResources: {path} does not exist: mount the host's {path.parent} there" == str(
        failure.value
    )


def test_a_socket_without_a_kubelet_is_refused(path: Path, source: PodResourcesSource) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as abandoned:
        abandoned.bind(str(path))
    with pytest.raises(SourceError, match=rf"no connection to {path}: Connection refused"):
        source.read()


def test_a_slow_kubelet_ends_at_the_deadline(path: Path) -> None:
    source = PodResourcesSource(path, timeout=0.2)
    with FakeKubelet(path, PODS) as kubelet:
        kubelet.delay = 30
        started = time.monotonic()
        with pytest.raises(SourceError, match=f"no answer on {path} within 0.2 s"):
            source.read()
    assert time.monotonic() - started < 5


def test_a_kubelet_that_never_speaks_ends_at_the_deadline(path: Path) -> None:
    source = PodResourcesSource(path, timeout=0.2)
    with closing(socket.socket(socket.AF_UNIX)) as mute:
        mute.bind(str(path))
        mute.listen()
        with pytest.raises(SourceError, match="within"):
            source.read()


def test_a_reply_past_64_mib_is_refused_with_its_size(path: Path, source: PodResourcesSource) -> None:
    with (
        FakeKubelet(path, bytes(64 * 2**20 + 1)),
        pytest.raises(SourceError, match=r"RESOURCE_EXHAUSTED: .*larger than max \(67108865 vs\. 67108864\)"),
    ):
        source.read()


def test_a_reply_that_is_none_is_refused(path: Path, source: PodResourcesSource) -> None:
    with FakeKubelet(path, b"\x0a\x7f"), pytest.raises(SourceError, match="not understood: the message ends"):
        source.read()


SCRIPT = """
import sys
from pathlib import Path
from gpuledger.core.errors import SourceError
from gpuledger.sources.podresources import PodResourcesSource
print("grpc" in sys.modules)
try:
    print(len(PodResourcesSource(Path(sys.argv[1]), timeout=1).read().allocations))
except SourceError:
    print("failed")
"""


@pytest.mark.parametrize(
    ("served", "outcome"), [(True, "1"), (False, "failed")], ids=["served", "socket missing"]
)
def test_grpc_is_imported_at_the_first_read_and_writes_no_log(
    path: Path, *, served: bool, outcome: str
) -> None:
    command = [sys.executable, "-c", SCRIPT, str(path if served else path.parent / "none")]
    with FakeKubelet(path, PODS):
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (f"False\n{outcome}\n", "") == (ran.stdout, ran.stderr)
