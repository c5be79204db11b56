"""What an exporter owes its readers whatever fails: no crash, no delay, no 0 for unknown, no wrong owner."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpuledger.core.model import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.world import World
    from tools.exposition import Exposition
    from tools.node import Node

SLOWEST_ANSWER_S = 1.0
STATUS = {"/metrics": {200}, "/": {200}, "/healthz": {200, 503}, "/readyz": {200, 503}}

MOST_REPEATS = 3
"""The log has a line for a change of state, not for every cycle."""

OF_A_LOST_GPU = ("gpu_up", "gpu_info", "gpu_xid_", "gpu_unsupported", "container_allocated")
"""What can be said of a GPU that answers nothing, beside counters: those stand where they were."""


def assert_honest(node: Node, world: World, *, repeats: int = MOST_REPEATS) -> Exposition:
    """Fail where the node's log, pages or series are not what they may be; returns the judged scrape.

    `repeats` is how often a line of the log may be there: as often as its state changed.
    """
    for path, allowed in STATUS.items():
        reply = node.get(path)
        assert reply.status in allowed, (path, reply)
        assert reply.seconds < SLOWEST_ANSWER_S, (path, reply.seconds)
    scrape = node.scrape()
    faults = [*_owners(scrape, world), *_memory(scrape, world), *_lost(scrape)]
    assert not faults, "\n".join([*faults, node.log(), scrape.books])
    assert "Traceback" not in node.log(), node.log()
    messages = Counter(line.partition(" ")[2] for line in node.log().splitlines())
    assert all(times <= repeats for times in messages.values()), node.log()
    return scrape


def _owners(scrape: Exposition, world: World) -> Iterator[str]:
    """A named owner must be the true one; a process without a name is no lie."""
    owners = {_names(owner) for owner in world.owners}
    for name in scrape.names:
        for sample in scrape.series(name):
            said = tuple(sample.labels.get(label, "") for label in ("namespace", "pod", "container"))
            if name.startswith("process_") and said[1]:
                holder = world.holders.get(int(sample.labels["pid"]))
                if not isinstance(holder, Owner) or _names(holder) != said:
                    yield f"{name}: {sample} is {holder}'s"
            elif name.startswith("container_") and said not in owners:
                yield f"{name}: {sample} belongs to nobody that ever was"


def _names(owner: Owner) -> tuple[str, str, str]:
    return (owner.namespace, owner.pod, owner.container)


def _memory(scrape: Exposition, world: World) -> Iterator[str]:
    """What is told must be what NVML said, and add up."""
    truth: dict[tuple[str, ...], int | None] = {
        (uuid, mig, *_names(holder)): used
        for (uuid, mig, holder), used in world.memory().items()
        if isinstance(holder, Owner)
    }
    for sample in scrape.series("container_memory_used_bytes"):
        labels = ("gpu_uuid", "mig_uuid", "namespace", "pod", "container")
        key = tuple(sample.labels[label] for label in labels)
        if sample.value != truth.get(key, 0):
            yield f"{sample} should be {truth.get(key, 0)}"
    for gpu in world.scenario.gpus:
        shown = scrape.value("gpu_memory_used_bytes", gpu_uuid=gpu.uuid)
        booked = scrape.series("container_memory_used_bytes", gpu_uuid=gpu.uuid)
        booked += scrape.series("unattributed_memory_used_bytes", gpu_uuid=gpu.uuid)
        used = gpu.memory_used or 0
        true = (used, used + (gpu.memory_reserved or 0))  # old drivers don't tell the reserved part apart
        if shown is not None and (shown not in true or shown != sum(sample.value for sample in booked)):
            yield f"{gpu.uuid} uses {used}, shows {shown}, booked on {booked}"


def _lost(scrape: Exposition) -> Iterator[str]:
    """A GPU that does not answer has no readings."""
    lost = {gpu.labels["gpu_uuid"] for gpu in scrape.series("gpu_up") if gpu.value == 0}
    for name in scrape.names:
        if not name.startswith(OF_A_LOST_GPU) and not name.endswith("_total"):
            for sample in scrape.series(name):
                if sample.labels.get("gpu_uuid") in lost:
                    yield f"{name} of a lost GPU: {sample}"
