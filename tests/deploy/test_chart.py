"""The chart, rendered by the real Helm engine for many values: valid, whole, and as confined as it says."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import helm_python
import kubernetes_validate
import msgspec
import pytest
import yaml

from audit.auditing import audited, findings
from fakes.apiserver import ApiServer
from gpuledger.app.web.webconfig import WebConfig
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.podsecurity import BASELINE, RESTRICTED
from gpuledger.audit.policy import Policy
from tools.chart import CHART, only, render, render_text
from tools.chartstart import Host

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PLATFORMS = ("generic", "gpu-operator", "eks", "gke", "aks", "k3s", "openshift")

WEB = {"config": {"tls_server_config": {"cert_file": "../tls/tls.crt", "key_file": "../tls/tls.key"}}}

MUTUAL = {
    "certificatesSecret": "certs",
    "config": {
        "tls_server_config": {
            **WEB["config"]["tls_server_config"],
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_ca_file": "../tls/ca.crt",
        },
        "basic_auth_users": {"prometheus": "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"},
        "http_server_config": {"headers": {"X-Frame-Options": "deny"}},
        "rate_limit": {"interval": "1s", "burst": 5},
    },
}

VALUES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    **{platform: {"platform": platform} for platform in PLATFORMS},
    "gke privileged": {"platform": "gke", "node": {"driver": {"privileged": True}}},
    "node alone": {"cluster": {"enabled": False}},
    "cluster alone": {"node": {"enabled": False}},
    "sharded": {"cluster": {"shards": 3, "policy": {"exceptions": []}}},
    "no optional right": {"node": {"api": False, "podLogs": False, "podResources": False}},
    "toolkit without variables": {"node": {"driver": {"devices": "volume-mounts"}}},
    "web": {"web": {**WEB, "certificatesSecret": "certs", "kubernetesAuth": True, "probes": "HTTPS"}},
    "web with client certificates": {
        "web": {**MUTUAL, "probes": "TCP"},
        "monitor": {"kind": "PodMonitor", "endpoint": {"scheme": "https"}},
    },
    "policy": {
        "cluster": {"policy": {"exceptions": [{"match": {"namespace": "ml"}, "reason": "a", "owner": "b"}]}}
    },
    "web by others": {"web": {"existingSecret": "ours", "probes": "TCP"}},
    "monitors": {"monitor": {"kind": "PodMonitor", "labels": {"release": "kps"}}},
    "service monitors": {"monitor": {"kind": "ServiceMonitor", "endpoint": {"scheme": "https"}}},
    "rules and dashboards": {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}},
    "blank": {
        "labels": None,
        "web": {"config": None},
        "monitor": {"kind": "PodMonitor", "labels": None, "endpoint": None},
        "prometheusRule": dict.fromkeys(("labels", "settings", "xidTiers", "disabled", "overrides"))
        | {"enabled": True},
    },
    "scheduling": {
        "labels": {"team": "platform"},
        "imagePullSecrets": [{"name": "registry"}],
        "node": {"priorityClassName": "system-node-critical", "affinity": None, "nodeSelector": {"gpu": "1"}},
        "cluster": {"tolerations": [{"operator": "Exists"}], "priorityClassName": "high"},
        "networkPolicy": {"from": [{"namespaceSelector": {}}]},
    },
}

FOREIGN = ("monitoring.coreos.com", "security.openshift.io")
"""API groups that Kubernetes has no schema of."""

KUBERNETES = ("1.25", kubernetes_validate.latest_version())
"""The oldest and the newest that the validator knows."""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with ApiServer() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))
        yield Host(tmp_path, ("certs",), ("ours",))


MATRIX = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


@MATRIX
def test_helm_has_nothing_to_say_against_it(values: Mapping[str, Any]) -> None:
    report = helm_python.lint(CHART, dict(values), strict=True)
    assert [] == [message for message in report["messages"] if message["severity"] > 1]


@pytest.mark.parametrize("version", KUBERNETES)
@MATRIX
def test_every_object_is_what_kubernetes_expects(values: Mapping[str, Any], version: str) -> None:
    for each in render(values):
        if each["apiVersion"].partition("/")[0] not in FOREIGN:
            kubernetes_validate.validate(each, version, strict=True)


@MATRIX
def test_objects_have_different_names_and_say_whose_they_are(values: Mapping[str, Any]) -> None:
    objects = render(values)
    keys = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(keys)) == len(keys)
    for each in objects:
        labels = {"app.kubernetes.io/name": "gpuledger", **(values.get("labels") or {})}
        assert labels.items() <= each["metadata"]["labels"].items()


@MATRIX
def test_what_selects_pods_selects_those_of_one_role(values: Mapping[str, Any]) -> None:
    objects = render(values)
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in workloads(objects)
    }
    services = {each["metadata"]["name"]: each["metadata"]["labels"] for each in of_kind(objects, "Service")}
    for each in objects:
        chooses = services if each["kind"] == "ServiceMonitor" else pods
        for selector in selectors(each):
            chosen = {name for name, labels in chooses.items() if selector.items() <= labels.items()}
            assert {each["metadata"]["name"]} == chosen, each["kind"]


@MATRIX
def test_what_a_pod_refers_to_is_there(values: Mapping[str, Any]) -> None:
    objects = render(values)
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    others = {("Secret", "certs"), ("Secret", "ours")}
    for workload in workloads(objects):
        spec = workload["spec"]["template"]["spec"]
        assert {("ServiceAccount", spec["serviceAccountName"]), *references(spec)} <= names | others
        mounted = {mount["name"] for mount in spec["containers"][0].get("volumeMounts", ())}
        assert {volume["name"] for volume in spec.get("volumes", ())} == mounted


@MATRIX
def test_the_program_starts_as_it_is_told(values: Mapping[str, Any], host: Host) -> None:
    for workload in workloads(render(values)):
        assert "" == host.complaint(workload, render(values))


SWITCHES = [
    {
        "node": {"api": api},
        "web": {"kubernetesAuth": tokens, "config": config, "certificatesSecret": "certs", "probes": probes},
    }
    for api, tokens, config, probes in itertools.product(
        (True, False), (True, False), ({}, WEB["config"], MUTUAL["config"]), ("HTTP", "HTTPS", "TCP")
    )
]


def test_switches_are_refused_by_the_chart_or_taken_by_the_program(host: Host) -> None:
    refused = 0
    for values in SWITCHES:
        try:
            objects = render(values)
        except helm_python.HelmError:
            refused += 1
            continue
        assert [(values, "")] * 2 == [(values, host.complaint(each, objects)) for each in workloads(objects)]
    assert 0 < refused < len(SWITCHES)


@MATRIX
def test_no_container_has_more_rights_than_it_says(values: Mapping[str, Any]) -> None:
    privileged = values.get("node", {}).get("driver", {}).get("privileged", False)
    for workload in workloads(render(values)):
        spec = workload["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert {"type": "RuntimeDefault"} == spec["securityContext"]["seccompProfile"]
        assert all(mount["readOnly"] for mount in container.get("volumeMounts", ()))
        if privileged and workload["kind"] == "DaemonSet":
            continue
        assert {"drop": ["ALL"]} == security["capabilities"]
        assert not security["allowPrivilegeEscalation"]
        assert "privileged" not in security


POD_SECURITY = (
    "host-path",
    *(check.id for check in CHECKS.values() if {BASELINE, RESTRICTED} & set(check.references)),
)
"""The checks that are controls of the Pod Security Standards."""


@MATRIX
def test_cluster_role_keeps_to_the_level_restricted(values: Mapping[str, Any]) -> None:
    for workload in workloads(render(values)):
        if workload["kind"] != "DaemonSet":
            assert set() == flagged(workload)


@pytest.mark.parametrize(
    ("values", "beyond"),
    [
        pytest.param({}, {"run-as-non-root", "run-as-root-user"}, id="default"),
        pytest.param({"podResources": False}, set(), id="without PodResources"),
    ],
)
def test_node_role_asks_for_the_level_privileged_because_of_hostpid_and_hostpath(
    values: Mapping[str, Any], beyond: set[str]
) -> None:
    """The others that it does not keep to come from PodResources alone."""
    daemon_set = only(render({"node": values}), "DaemonSet")
    assert {"host-namespaces", "host-path"} | beyond == flagged(daemon_set)


WRONG = {
    "nothing": ({"platform": None}, "missing property 'platform'"),
    "nothing below": ({"node": {"driver": None}}, "missing property 'driver'"),
    "unknown key": ({"nodes": {}}, "additional properties 'nodes' not allowed"),
    "unknown key below": ({"node": {"resource": {}}}, "additional properties 'resource' not allowed"),
    "platform": ({"platform": "openstack"}, "value must be one of 'generic', 'gpu-operator'"),
    "name": ({"fullnameOverride": "a" * 45}, "does not match pattern"),
    "flag": ({"node": {"extraArgs": ["interval=2s"]}}, "does not match pattern '^--[a-z]'"),
    "shards": ({"cluster": {"shards": 0}}, "minimum: got 0, want 1"),
    "shards as text": ({"cluster": {"shards": "3"}}, "got string, want integer"),
    "digest": ({"image": {"digest": "sha256:12"}}, "does not match pattern"),
    "honorLabels": ({"monitor": {"endpoint": {"honorLabels": False}}}, "propertyName"),
    "label that selects pods": ({"labels": {"app.kubernetes.io/name": "foo"}}, "propertyName"),
    "probes": ({"web": {"probes": "http"}}, "value must be one of 'HTTP', 'HTTPS', 'TCP'"),
    "TLS without probes": ({"web": WEB}, "set web.probes to HTTPS"),
    "tokens without the API": (
        {"node": {"api": False}, "web": {"kubernetesAuth": True}},
        "node.api=false leaves the node role no API to ask about tokens",
    ),
    "probes with TLS where there is none": (
        {"web": {"probes": "HTTPS"}},
        "web.config has no tls_server_config",
    ),
    "probes without a certificate": ({"web": {**MUTUAL, "probes": "HTTPS"}}, "set web.probes to TCP"),
    "certificates that are not mounted": ({"web": {**WEB, "probes": "HTTPS"}}, "set web.certificatesSecret"),
    "key of the web configuration": (
        {"web": {"config": {"tls_server_confg": {}}}},
        "additional properties 'tls_server_confg' not allowed",
    ),
    "password in clear": (
        {"web": {"config": {"basic_auth_users": {"alice": "secret"}}}},
        "the password of basic_auth_users.alice is no bcrypt hash",
    ),
    "scrapes without TLS": (
        {"web": {**WEB, "certificatesSecret": "certs", "probes": "HTTPS"}, "monitor": {"kind": "PodMonitor"}},
        "set monitor.endpoint.scheme to https",
    ),
    "policy": (
        {"cluster": {"policy": {"exception": []}}},
        "additional properties 'exception' not allowed",
    ),
    "two configurations": ({"web": {**WEB, "existingSecret": "x"}}, "set one"),
    "file for a PodMonitor": (
        {"monitor": {"kind": "PodMonitor", "endpoint": {"bearerTokenFile": "/token"}}},
        "a PodMonitor can't name files of Prometheus",
    ),
    "certificate's file for a PodMonitor": (
        {"monitor": {"kind": "PodMonitor", "endpoint": {"tlsConfig": {"caFile": "/ca.crt"}}}},
        "a PodMonitor can't name files of Prometheus",
    ),
    "alert": ({"prometheusRule": {"enabled": True, "disabled": ["GpuXid"]}}, "there is no alert GpuXid"),
    "setting": (
        {"prometheusRule": {"enabled": True, "settings": {"idle": 1}}},
        "no rule has the setting: idle",
    ),
    "setting with a unit": (
        {"prometheusRule": {"enabled": True, "settings": {"idle-ratio": "1%"}}},
        'prometheusRule.settings.idle-ratio: "1%" is no number',
    ),
    "setting that is empty": (
        {"prometheusRule": {"enabled": True, "settings": {"idle-ratio": ""}}},
        'prometheusRule.settings.idle-ratio: "" is no number',
    ),
    "setting that is no pattern": (
        {"prometheusRule": {"enabled": True, "settings": {"host-units": "(docker"}}},
        "missing closing )",
    ),
    "tier": ({"prometheusRule": {"enabled": True, "xidTiers": {"fatal": [1]}}}, "no rule has the tier: fatal"),
}


@pytest.mark.parametrize(("values", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_fail_with_a_message_that_says_which(values: Mapping[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmError, match=re.escape(message)):
        render(values)


SCHEMA = json.loads((CHART / "values.schema.json").read_text())["properties"]


@pytest.mark.parametrize(
    ("schema", "struct"),
    [
        pytest.param(SCHEMA["web"]["properties"]["config"], WebConfig, id="web.config"),
        pytest.param(SCHEMA["cluster"]["properties"]["policy"], Policy, id="cluster.policy"),
    ],
)
def test_the_schema_knows_the_keys_that_the_program_knows(schema: Any, struct: type) -> None:
    (_, components) = msgspec.json.schema_components([struct])
    known = {key for each in components.values() for key in each["properties"]}
    assert known == set(keys_of(schema))


def keys_of(schema: Mapping[str, Any]) -> Iterator[str]:
    for key, value in schema.get("properties", {}).items():
        yield key
        yield from keys_of(value)
    yield from keys_of(schema.get("items", {})) if "items" in schema else ()


def test_a_long_release_name_leaves_room_for_the_roles() -> None:
    for each in render({"cluster": {"shards": 2}}, name="a" * 53):
        assert len(each["metadata"]["name"]) <= (52 if each["kind"] == "StatefulSet" else 63)


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        pytest.param({}, True, id="default"),
        pytest.param({"networkPolicy": {"from": []}}, True, id="from anywhere"),
        pytest.param({"networkPolicy": {"enabled": False}}, True, id="without a policy"),
        pytest.param({"networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}}, False, id="narrow"),
        pytest.param({"web": {"kubernetesAuth": True}}, False, id="tokens"),
    ],
)
def test_notes_say_where_everybody_may_read(values: Mapping[str, Any], *, warned: bool) -> None:
    notes = render_text(values)["gpuledger/templates/NOTES.txt"]
    assert warned == ("Whoever reaches the port" in notes)


def test_by_default_pods_of_all_namespaces_may_scrape_and_nobody_else() -> None:
    for policy in of_kind(render(), "NetworkPolicy"):
        assert [[{"namespaceSelector": {}}]] == [rule["from"] for rule in policy["spec"]["ingress"]]


def test_a_policy_is_given_to_the_cluster_role_as_it_is_written() -> None:
    policy = {"exceptions": [{"match": {"namespace": "ml-*"}, "reason": "a", "owner": "b"}]}
    data = only(render({"cluster": {"policy": policy}}), "ConfigMap", "gpuledger-policy")["data"]
    assert policy == yaml.safe_load(data["policy.yaml"])


def test_rights_that_are_taken_away_are_not_asked_for() -> None:
    objects = render({"node": {"api": False, "podLogs": False, "podResources": False}})
    daemon_set = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert ["node", "--kube=off"] == daemon_set["containers"][0]["args"]
    assert not daemon_set["automountServiceAccountToken"]
    assert "volumes" not in daemon_set
    assert [] == [
        each for each in of_kind(objects, "ClusterRole") if each["metadata"]["name"] == "gpuledger-node"
    ]


def of_kind(objects: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def workloads(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return of_kind(objects, "DaemonSet", "Deployment", "StatefulSet")


def selectors(each: dict[str, Any]) -> Iterator[dict[str, str]]:
    spec = each.get("spec", {})
    if each["kind"] == "Service":
        yield spec["selector"]
    for key in ("selector", "podSelector"):
        if "matchLabels" in spec.get(key, {}):
            yield spec[key]["matchLabels"]


def references(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes", ()):
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]


def flagged(workload: dict[str, Any]) -> set[str]:
    """The controls of Pod Security that the pod of a workload does not keep to, with nothing excused."""
    bare = {**workload, "metadata": {"name": workload["metadata"]["name"], "namespace": "anywhere"}}
    report = audited(yaml.safe_dump(bare), *POD_SECURITY, every_pod=True)
    return {finding.check for finding in findings(report)}
