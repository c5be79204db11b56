"""A pod's effective request is what the scheduler counts."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pytest

from gpuledger.core.accounting import ContainerKind, container_requests, effective_requests

GPU = "nvidia.com/gpu"


def _gpus(*containers: tuple[ContainerKind, int]) -> list[tuple[ContainerKind, Mapping[str, Decimal]]]:
    return [(kind, {GPU: Decimal(count)}) for kind, count in containers]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([("regular", 1), ("regular", 2)], 3, id="containers add up"),
        pytest.param([("init", 2), ("regular", 1)], 2, id="the largest init container wins"),
        pytest.param([("init", 2), ("init", 3), ("regular", 1)], 3, id="init containers run one by one"),
        pytest.param([("init", 1)], 1, id="only an init container asks"),
        pytest.param([("sidecar", 1), ("regular", 1)], 2, id="a sidecar stays"),
        pytest.param(
            [("sidecar", 1), ("init", 2), ("regular", 1)],
            3,
            id="an init container runs beside earlier sidecars",
        ),
        pytest.param(
            [("init", 2), ("sidecar", 1), ("regular", 1)], 2, id="an init container precedes later sidecars"
        ),
        pytest.param(
            [("init", 1), ("sidecar", 1), ("init", 2), ("regular", 1)], 3, id="kubernetes/kubernetes#134880"
        ),
        pytest.param([("ephemeral", 5), ("regular", 1)], 1, id="ephemeral containers ask for nothing"),
    ],
)
def test_containers(containers: Sequence[tuple[ContainerKind, int]], expected: int) -> None:
    assert {GPU: Decimal(expected)} == effective_requests(_gpus(*containers))


def test_unlike_units_are_never_summed() -> None:
    wanted = {GPU: Decimal(2), "amd.com/gpu": Decimal(1)}
    assert wanted == effective_requests([("regular", wanted)])


def test_overhead_comes_on_top() -> None:
    total = effective_requests(_gpus(("regular", 1)), overhead={GPU: Decimal(1), "cpu": Decimal("0.25")})
    assert {GPU: Decimal(2), "cpu": Decimal("0.25")} == total


def test_pod_level_resources_replace_cpu_and_memory_but_never_gpus() -> None:
    total = effective_requests(
        [("regular", {GPU: Decimal(1), "cpu": Decimal(1), "hugepages-2Mi": Decimal(4)})],
        pod_level={GPU: Decimal(8), "cpu": Decimal(3), "hugepages-2Mi": Decimal(2)},
    )
    assert {GPU: Decimal(1), "cpu": Decimal(3), "hugepages-2Mi": Decimal(2)} == total


def test_a_limit_without_a_request_is_the_request() -> None:
    assert {GPU: Decimal(1), "cpu": Decimal(1)} == container_requests(
        {"cpu": Decimal(1)}, {GPU: Decimal(1), "cpu": Decimal(2)}
    )


def test_no_containers_ask_for_nothing() -> None:
    assert effective_requests([]) == {}
