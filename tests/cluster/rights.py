"""The rights that the chart gives to a role, given in a test, and access to the API with just these."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.node import kubectl
from tools.chart import NAME, only, render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Rule = dict[str, Any]
Change = Callable[[list[Rule]], list[Rule]]
"""What is left of a role's rules."""


@contextlib.contextmanager
def allowed(role: str, namespace: str, change: Change = lambda rules: rules) -> Iterator[None]:
    """Let the role's account do what the chart says, but for what `change` takes away."""
    document = account(role, namespace, change)
    try:
        kubectl("apply", "-f", "-", stdin=document)
        yield
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", stdin=document)


def account(role: str, namespace: str, change: Change = lambda rules: rules) -> str:
    """The role's account, ClusterRole and binding as a list for kubectl, named after the namespace."""
    objects = [
        each
        for each in render(name=namespace)
        if each["metadata"]["name"] == f"{namespace}-{role}"
        and each["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    ]
    for each in objects:
        if each["kind"] == "ClusterRole":
            each["rules"] = change(each["rules"])
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return document.replace(f'"namespace": "{NAME}"', f'"namespace": "{namespace}"')


def rules_of(role: str, namespace: str) -> list[Rule]:
    """The rules of the role's ClusterRole."""
    rules: list[Rule] = only(json.loads(account(role, namespace))["items"], "ClusterRole")["rules"]
    return rules


def write_kubeconfig(role: str, namespace: str, path: Path) -> Path:
    """Access to the API as the role's account."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = kubectl("create", "token", f"{namespace}-{role}", "-n", namespace).strip()
    config["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(config))
    return path
