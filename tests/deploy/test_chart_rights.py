"""The chart's RBAC allows what the roles ask of the API, verb by verb, and nothing more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fakes.apiserver import ApiServer, Asked
from fakes.podwatch import eventually, following, gpu_pod
from gpuledger.app.cluster.command import wire
from gpuledger.app.settings import ClusterSettings
from gpuledger.sources.kubeapi import connect
from gpuledger.sources.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from tools.chart import only, render

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nightly-29934305", "namespace": "ml"}}

_PATH = re.compile(r"/apis?/(?:(?P<group>[^/]+)/)?v\w+/(?:namespaces/[^/]+/)?(?P<plural>[a-z]+)(?P<name>/.+)?")

Right = tuple[str, str, str]
"""API group, resource and verb."""


def right_to(asked: Asked) -> Right:
    found = _PATH.fullmatch(asked.path)
    assert found is not None, asked.path
    verb = "watch" if asked.watch else "get" if found["name"] else "list"
    return found["group"] or "", found["plural"], verb


def asked_of(api: ApiServer) -> set[Right]:
    return {right_to(asked) for asked in api.requests}


def granted(role: str, values: Mapping[str, Any] | None = None) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in only(render(values), "ClusterRole", f"gpuledger-{role}")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_node_role_may_do_what_it_does(tmp_path: Path) -> None:
    with ApiServer() as api:
        api.add(gpu_pod("nightly", api.add(JOB)))
        with following(connect("kubeconfig", str(api.kubeconfig(tmp_path / "config")))):
            eventually(granted("node"), lambda: asked_of(api))


def test_node_role_asks_for_the_pods_of_its_node_alone(tmp_path: Path) -> None:
    with ApiServer() as api, following(connect("kubeconfig", str(api.kubeconfig(tmp_path / "config")))):
        eventually({"list", "watch"}, lambda: {verb for _, _, verb in asked_of(api)})
        assert {"spec.nodeName=node1"} == {asked.query["fieldSelector"] for asked in api.requests}


def test_cluster_role_may_do_what_it_does(tmp_path: Path) -> None:
    with ApiServer() as api:
        loop, _ = wire(ClusterSettings(kubeconfig=str(api.kubeconfig(tmp_path / "config"))))
        loop.start()
        try:
            eventually(granted("cluster"), lambda: asked_of(api))
        finally:
            loop.stop()


def test_whose_tokens_these_are_may_be_asked_only_where_it_is() -> None:
    reviews = {
        (group, resource, "create")
        for _, _, group, _, resource in (path.split("/") for path in (TOKEN_REVIEWS, ACCESS_REVIEWS))
    }
    for role in ("node", "cluster"):
        assert reviews == granted(role, {"web": {"kubernetesAuth": True}}) - granted(role)
