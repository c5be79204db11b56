"""From the driver to the reader: what happens on a node reaches whom it concerns, with pod and runbook."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from fakes import clusterview
from fakes.nvml import presets
from fakes.nvml.scenario import Scenario
from fakes.tenants import NODE, bare, stateful_set
from fakes.world import MIB, World
from tools.alertmanager import Alertmanager, Inbox, write_config
from tools.daemon import Daemon, until
from tools.node import Node
from tools.prometheus import VERSIONS, Prometheus
from tools.rulefiles import PLAIN, ROOT, RUNBOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.nvml.scenario import Gpu

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "deploy" / "alertmanager" / "alertmanager.yaml"

QUIET_NODE = "gpu-node-2"

PRIVILEGED = {"securityContext": {"privileged": True}}

FASTER = 240
"""Rules run so much faster: an hour is 15 seconds."""
SHORTEST_S = 2
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def hurried(rules: str) -> str:
    """The rules with every duration (for, keep_firing_for, ranges, offsets) made shorter; thresholds stand."""

    def shorter(found: re.Match[str]) -> str:
        seconds = int(found[2]) * UNIT_SECONDS[found[3]] // FASTER
        return f"{found[1]}{max(seconds, SHORTEST_S) if found[2] != '0' else 0}s"

    return re.sub(r"((?:for|offset):? |\[|(?<=\w):)(\d+)([smhd])(?=[\]\s:])", shorter, rules)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the tests act on, each on GPUs of its own, and look at."""

    world: World
    quiet: Node
    """The exporter of a second node, on which nothing happens."""
    alertmanager: Alertmanager
    inbox: Inbox


@pytest.fixture(scope="module", params=VERSIONS)
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A node with GPUs that are: trained on, held and idle, used by a pod that holds none, trained on."""
    folder, quiet_folder = tmp_path_factory.mktemp("stage"), tmp_path_factory.mktemp("quiet")
    rules = [folder / path.name for path in PLAIN.glob("*.yaml")]
    for rule in rules:
        rule.write_text(hurried((PLAIN / rule.name).read_text()))
    with ExitStack() as stack:
        inbox = stack.enter_context(Inbox())
        world = stack.enter_context(World(folder, presets.node(4)))
        quiet_world = stack.enter_context(World(quiet_folder, Scenario(gpus=[presets.h100(4)])))
        _populate(world)
        api, flags = world.serve_api()
        api.add(clusterview.node(NODE, 4))
        api.add(clusterview.pod("debug-shell", node=NODE, namespace="team-b", container=PRIVILEGED))
        node = stack.enter_context(Node(world, *flags))
        quiet = stack.enter_context(Node(quiet_world, f"--node-name={QUIET_NODE}"))
        alertmanager = stack.enter_context(Alertmanager(folder, write_config(EXAMPLE, inbox, folder)))
        command = [sys.executable, "-m", "gpuledger", "cluster", "--web.listen-address=127.0.0.1:0", flags[1]]
        cluster = stack.enter_context(Daemon(command, folder / "cluster.log"))
        nodes = {"busy": node, "quiet": quiet}
        prometheus = Prometheus(
            folder,
            {
                **{name: each.url.removeprefix("http://") for name, each in nodes.items()},
                "cluster": cluster.address(),
            },
            version=request.param,
            interval="500ms",
            rules=rules,
            alertmanagers=[alertmanager.address()],
        )
        stack.enter_context(prometheus).wait_for("count(gpuledger_gpu_up) == 5")
        yield Stage(world=world, quiet=quiet, alertmanager=alertmanager, inbox=inbox)


def _populate(world: World) -> None:
    trained, idle, taken, also_trained = world.scenario.gpus
    for name, gpu in (("train", trained), ("tune", also_trained)):
        tenant = world.admit(stateful_set(name), gpu.uuid, namespace="research")
        world.run(tenant, gpu, memory=4_000 * MIB, sm=60)
    world.admit(stateful_set("notebook"), idle.uuid, namespace="team-a")
    world.run(world.admit(bare("sneaky"), namespace="team-b"), taken, memory=1_000 * MIB, sm=30)
    world.publish()


def lose(world: World, gpu: Gpu) -> None:
    """The GPU falls off the bus."""
    world.scenario.add_event(gpu, 79)
    gpu.lost = True
    world.publish()


def has_a_runbook(alert: dict[str, Any]) -> bool:
    """Whether the link leads to a page that exists."""
    url: str = alert["annotations"]["runbook_url"]
    return (RUNBOOKS / url.rpartition("/")[2]).is_file()


def test_use_without_a_request_reaches_security(stage: Stage) -> None:
    taken = stage.world.scenario.gpus[2]

    alert = stage.inbox.wait_for("security", "GpuProcessWithoutAllocation", namespace="team-b", pod="sneaky")

    assert (taken.uuid, NODE) == (alert["labels"]["gpu_uuid"], alert["labels"]["node"])
    assert has_a_runbook(alert)


def test_a_broken_gpu_reaches_the_platform_and_names_the_pod(stage: Stage) -> None:
    broken = stage.world.scenario.gpus[0]
    lose(stage.world, broken)

    alert = stage.inbox.wait_for("platform-page", "GpuXidCritical", xid="79", gpu_uuid=broken.uuid)

    assert alert["annotations"]["pods"] == "research/train-0"
    assert has_a_runbook(alert)


def test_a_missing_gpu_holds_back_what_it_explains(stage: Stage) -> None:
    lost = stage.world.scenario.gpus[3]
    lose(stage.world, lost)
    missing = stage.inbox.wait_for("platform-page", "GpuMissing", gpu_uuid=lost.uuid)
    assert missing["annotations"]["pods"] == "research/tune-0"
    assert has_a_runbook(missing)

    def held_back() -> dict[str, Any]:
        alerts = [a for a in stage.alertmanager.alerts() if a["labels"].get("gpu_uuid") == lost.uuid]
        known = {alert["labels"]["alertname"]: alert for alert in alerts}
        return known if known["GpuXidCritical"]["status"]["state"] == "suppressed" else {}

    known = until(held_back, 15, lambda: str(stage.alertmanager.alerts()))
    assert [known["GpuMissing"]["fingerprint"]] == known["GpuXidCritical"]["status"]["inhibitedBy"]
    assert known["GpuMissing"]["status"]["state"] == "active"


def test_an_idle_gpu_reaches_its_owner_in_words(stage: Stage) -> None:
    idle = stage.world.scenario.gpus[1]

    alert = stage.inbox.wait_for("team-a", "GpuAllocatedIdle", namespace="team-a", pod="notebook-0")

    assert alert["annotations"]["gpus"] == f"1 ({idle.uuid})"
    assert has_a_runbook(alert)
    told = "\n".join(stage.inbox.messages["team-a"])
    assert "Pod: notebook-0\nWorkload: StatefulSet notebook\n" in told
    assert f"Runbook: {alert['annotations']['runbook_url']}\n" in told
    assert [] == [a for a in stage.inbox.alerts["team-a"] if a["labels"]["namespace"] != "team-a"]


def test_a_critical_finding_of_the_audit_reaches_security_and_names_the_pod(stage: Stage) -> None:
    alert = stage.inbox.wait_for(
        "security",
        "GpuAuditFindingCritical",
        namespace="team-b",
        workload="debug-shell",
        check="gpu-privileged",
    )

    assert ("Pod", "critical") == (alert["labels"]["workload_kind"], alert["labels"]["severity"])
    assert alert["annotations"]["pods"] == "team-b/debug-shell"
    assert has_a_runbook(alert)


def test_a_killed_exporter_reaches_the_platform(stage: Stage) -> None:
    stage.quiet.process.kill()

    assert has_a_runbook(stage.inbox.wait_for("platform-page", "GpuExporterDown", node=QUIET_NODE))
