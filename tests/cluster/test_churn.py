"""No wrong owner in any scrape while pods are created, killed, evicted, exec'd into and rolled all the time.

For CHURN_SECONDS, a minute unless told; CHURN_SEED chooses another course of events.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pytest

from cluster.churn import Churn, GpuUse, Seen, repeated
from cluster.exporter import exporting
from cluster.node import kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.churn import Stint
    from cluster.gpus import NodeGpus
    from cluster.node import Node

SECONDS = int(os.environ.get("CHURN_SECONDS", "60"))
CYCLES = 2
"""From a process's start until its owner is told."""

pytestmark = [pytest.mark.churn, pytest.mark.timeout(SECONDS + 240)]

HERE = Path(__file__).parent


@pytest.fixture
def churned() -> Iterator[str]:
    """A namespace of its own."""
    name = f"gpuledger-churn-{uuid.uuid4().hex[:6]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--timeout=100s")


def test_every_process_has_its_true_owner_and_has_it_soon(
    node: Node, gpus: NodeGpus, churned: str, kubeconfig: Path, tmp_path: Path
) -> None:
    """With the API and without; what each process says of itself is the truth."""
    chance = random.Random(int(os.environ.get("CHURN_SEED", "0")))  # noqa: S311 - no secret
    here = {"node": node.name, "image": node.image}
    kubectl("apply", "-n", churned, "-f", "-", stdin=_fill("churn.yaml", **here))
    churn = Churn(churned, chance, lambda name: _fill("churn-pod.yaml", name=name, **here))
    use = GpuUse(gpus, churned, chance)
    use.tick()
    with ExitStack() as stack:
        seen = {}
        for api, flag in {"with the API": f"--kubeconfig={kubeconfig}", "without": "--kube=off"}.items():
            folder = tmp_path / api
            folder.mkdir()
            seen[api] = Seen(stack.enter_context(exporting(node, gpus, folder, flag)))
        raised = [stack.enter_context(repeated(each)) for each in (use.tick, *(s.look for s in seen.values()))]
        ends_at = time.monotonic() + SECONDS
        while time.monotonic() < ends_at and not any(raised):
            churn.step()
            time.sleep(chance.uniform(0, 1))
    assert not any(raised), raised

    for api, each in seen.items():
        lags = sorted(_lags(each, use.stints))
        _report(f"{api}: {each.scrapes} scrapes, {len(each.cycles)} cycles, cycles to the owner", lags)
        print(f"  {dict(each.results)}")  # noqa: T201 - figures for whoever runs it by hand
        assert [] == _wrong(each, use)
        assert lags
        assert lags[-1] <= CYCLES
    print(f"{dict(churn.done)}; {len(use.stints)} stints of {len(use.owners)} PIDs")  # noqa: T201 - as above


def _wrong(seen: Seen, use: GpuUse) -> list[object]:
    """Whatever was said that never was true; a container that is not told is no lie."""
    processes = [
        (cycle, pid, name, use.owners[pid])
        for cycle, rows in seen.cycles.items()
        for pid, name in rows.items()
        if name[1] and not any(name in (true, (*true[:2], "")) for true in use.owners[pid])
    ]
    users = [each for each in seen.users if each[0][2] and each[1] not in use.devices.get(each[0], ())]
    # One that never came to run may have held something.
    holders = [each for each in seen.holders if each[0] in use.devices and each[1] not in use.devices[each[0]]]
    return [*processes, *users, *holders]


def _lags(seen: Seen, stints: list[Stint]) -> Iterator[int]:
    """For each process that stayed long enough, how many cycles it took until its owner was told."""
    times = sorted(seen.cycles)
    for stint in stints:
        cycles = [seen.cycles[at].get(stint.pid) for at in times if stint.since < at < stint.until]
        if len(cycles) > CYCLES:
            owned = [number for number, name in enumerate(cycles, start=1) if name == stint.name]
            yield owned[0] if owned else len(cycles) + 1


def _report(what: str, numbers: list[int]) -> None:
    print(f"{what}: { {n: numbers.count(n) for n in sorted(set(numbers))} }")  # noqa: T201 - as above


def _fill(template: str, **values: str) -> str:
    return Template((HERE / template).read_text()).substitute(values)
