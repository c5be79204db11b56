"""Every captured or composed node: who owns each process, by what is known there.

A folder of tests/fixtures/nodes may hold `owners-by-logs.toml` (without the API) and `owners-by-api.toml`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.nodes import NODES, read_node
from fakes.owners import node_evidence, read_owners, render_holder
from gpuledger.core.attribution import Evidence, allocation_owner, holder_of, live_allocations
from gpuledger.parse.kubeobjects import parse_pod_list
from gpuledger.parse.podresources import parse_list

KUBE = Path(__file__).parents[1] / "fixtures" / "kube-1.36"
CAPTURED = "containerd-cgroupfs-v1"
"""The node that was captured whole, with what its API and its kubelet answered at that moment."""
PODS = parse_pod_list((KUBE / "api-pods-node1.json").read_bytes()).items

LLM, EVAL = "llm-server-df7f55ddd", "nightly-eval-29934305-rs69m"


def owners(evidence: Evidence) -> dict[int, str]:
    facts = evidence.facts or {}
    return {pid: render_holder(holder_of(facts[pid], evidence)) for pid in sorted(facts)}


@pytest.mark.parametrize("name", NODES)
def test_owners_by_the_log_folders_alone(name: str) -> None:
    assert read_owners(name, "owners-by-logs.toml") == owners(node_evidence(read_node(name)))


@pytest.mark.parametrize("logs", [True, False], ids=["with-logs", "without-logs"])
def test_owners_by_the_api(logs: bool) -> None:  # noqa: FBT001 - a table
    evidence = node_evidence(read_node(CAPTURED), pods=tuple(PODS), logs=logs)

    assert read_owners(CAPTURED, "owners-by-api.toml") == owners(evidence)


@pytest.mark.parametrize("known", range(len(PODS) + 1))
def test_an_api_that_failed_half_way_gives_poorer_owners_and_never_other_ones(known: int) -> None:
    """Each process is owned as the API tells it, or as the log folders alone do."""
    best = read_owners(CAPTURED, "owners-by-api.toml")
    least = read_owners(CAPTURED, "owners-by-logs.toml")

    for pid, holder in owners(node_evidence(read_node(CAPTURED), pods=tuple(PODS[:known]))).items():
        assert holder in (best[pid], least[pid])


@pytest.mark.parametrize("name", NODES)
def test_without_any_names_nobody_is_named(name: str) -> None:
    named = [holder for holder in owners(node_evidence(read_node(name), logs=False)).values() if "/" in holder]

    assert named == []


def test_what_the_kubelet_allocated_is_booked_on_the_same_names() -> None:
    evidence = node_evidence(read_node(CAPTURED), pods=tuple(PODS))
    allocations = parse_list((KUBE / "podresources-list.pb").read_bytes())

    live = live_allocations(allocations, evidence.pods)

    assert {a.device_id: render_holder(allocation_owner(a, evidence)) for a in live} == {
        "GPU-aaaaaaaa-0000-4000-8000-000000000000": "ml-training/finetune-xkff6/trainer Job/finetune",
        "GPU-bbbbbbbb-0000-4000-8000-000000000001": "ml-training/crashy/c Pod/crashy",
        "GPU-dddddddd-0000-4000-8000-000000000003": "research/notebook-0/jupyter StatefulSet/notebook",
        "GPU-eeeeeeee-0000-4000-8000-000000000006": "research/debug-shell/sh Pod/debug-shell",
        "GPU-eeeeeeee-0000-4000-8000-000000000007": "ml-training/finetune-xkff6/trainer Job/finetune",
        "GPU-ffffffff-0000-4000-8000-000000000005::0": f"inference/{LLM}-mtt5x/server Deployment/llm-server",
        "GPU-ffffffff-0000-4000-8000-000000000005::2": f"inference/{LLM}-ftvjq/server Deployment/llm-server",
        "MIG-11111111-2222-5333-8444-000000000001": f"ml-training/{EVAL}/eval CronJob/nightly-eval?",
    }
