"""The kubelet's names for logs are read as it writes them, and no other name is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.nodes import NODES, read_node
from gpuledger.core.model import ContainerId, LoggedContainer, PodUid
from gpuledger.parse.podlogs import is_container_name, parse_container_log_name, parse_pod_log_dir

UID = PodUid("2fa837fd-7da1-4896-863d-368a4ca73c2d")
HASH = PodUid("59c4df0a0ccce5b7aad9ad5d4e5233db")
CID = ContainerId("c2a243374a7f39554c08a717fcd27a8be06979128bc0221d864bdebc7108483e")
LINK = f"llm-0_inference_server-{CID}.log"
TARGET = f"/var/log/pods/inference_llm-0_{UID}/server/0.log"


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        pytest.param(LINK, TARGET, LoggedContainer("inference", "llm-0", "server", UID), id="pod"),
        pytest.param(
            f"gpu-node1.example.com_kube-system_main-{CID}.log",
            f"/var/log/pods/kube-system_gpu-node1.example.com_{HASH}/main/17.log",
            LoggedContainer("kube-system", "gpu-node1.example.com", "main", HASH),
            id="static pod",
        ),
        pytest.param(
            LINK,
            f"../../data/kubelet-logs/inference_llm-0_{UID}/server/0.log",
            LoggedContainer("inference", "llm-0", "server", UID),
            id="another log folder",
        ),
        pytest.param(
            f"llm-0_inference_c-{'ab' * 20}-{CID}.log",
            "",
            LoggedContainer("inference", "llm-0", f"c-{'ab' * 20}"),
            id="container named like an ID",
        ),
        pytest.param(
            LINK,
            f"/var/log/pods/{UID}/server_0.log",
            LoggedContainer("inference", "llm-0", "server"),
            id="before Kubernetes 1.14",
        ),
    ],
)
def test_a_link_names_the_container_of_an_id(link: str, target: str, expected: LoggedContainer) -> None:
    assert (CID, expected) == parse_container_log_name(link, target)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param(LINK.removesuffix(".log"), TARGET, id="no log"),
        pytest.param(LINK.replace(CID, CID[:-1]), TARGET, id="ID cut off"),
        pytest.param(LINK.replace(CID, CID + "0"), TARGET, id="longer than an ID"),
        pytest.param(LINK.replace(CID, CID.upper()), TARGET, id="no ID"),
        pytest.param(LINK.replace("llm-0", "LLM"), TARGET, id="upper case"),
        pytest.param(LINK.replace("llm-0", "../llm"), TARGET, id="path"),
        pytest.param(LINK.replace("llm-0", "a..b"), TARGET, id="empty part"),
        pytest.param(LINK.replace("llm-0", "l" * 254), "", id="pod's name too long"),
        pytest.param(LINK.replace("server", "s" * 64), "", id="container's name too long"),
        pytest.param(LINK.replace("inference", "kube_system"), TARGET, id="underscore too many"),
        pytest.param(LINK + "\n", TARGET, id="newline"),
        pytest.param(LINK, TARGET.replace("inference", "research"), id="another namespace's log"),
        pytest.param(LINK, TARGET.replace("llm-0", "llm-1"), id="another pod's log"),
        pytest.param(LINK, TARGET.replace("server", "sidecar"), id="another container's log"),
    ],
)
def test_a_link_that_the_kubelet_did_not_make_names_nothing(link: str, target: str) -> None:
    assert parse_container_log_name(link, target) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(f"inference_llm-0_{UID}", (UID, "inference", "llm-0"), id="pod"),
        pytest.param(f"kube-system_etcd-a.b_{HASH}", (HASH, "kube-system", "etcd-a.b"), id="static pod"),
        pytest.param(f"n_{'p' * 253}_{HASH}", (HASH, "n", "p" * 253), id="longest name"),
        pytest.param(f"n_{'p' * 254}_{HASH}", None, id="name too long"),
        pytest.param(f"{'n' * 64}_p_{HASH}", None, id="namespace too long"),
        pytest.param(f"inference_llm-0_{UID[:-1]}", None, id="UID cut off"),
        pytest.param(f"inference_llm-0_{UID}_{UID}", None, id="UID too many"),
        pytest.param(f"inference_llm_0_{UID}", None, id="underscore too many"),
        pytest.param(f"-inference_llm-0_{UID}", None, id="dash in front"),
        pytest.param(f"inference_llm-0_{UID}\n", None, id="newline"),
        pytest.param(UID, None, id="before Kubernetes 1.14"),
    ],
)
def test_a_folder_names_a_pod_as_the_kubelet_does(name: str, expected: tuple[PodUid, str, str] | None) -> None:
    assert expected == parse_pod_log_dir(name)


@pytest.mark.parametrize("name", NODES)
def test_a_captured_link_and_cgroup_agree_on_the_pod(name: str) -> None:
    node = read_node(name)
    logged = dict(filter(None, (parse_container_log_name(*link) for link in node.links.items())))
    for cgroup in node.expected.values():
        if cgroup.container_id in logged and cgroup.pod_uid:
            assert cgroup.pod_uid == logged[cgroup.container_id].pod_uid


@pytest.mark.parametrize("name", [node for node in NODES if node != "hostile"])
def test_every_captured_link_and_folder_is_read(name: str) -> None:
    node = read_node(name)
    assert None not in [parse_container_log_name(*link) for link in node.links.items()]
    for pod, _, container in (path.partition("/") for path in node.pod_dirs):
        assert parse_pod_log_dir(pod) is not None
        assert is_container_name(container) or container == ""


def test_only_the_kubelets_own_names_are_read_on_a_hostile_node() -> None:
    node = read_node("hostile")
    logged = dict(filter(None, (parse_container_log_name(*link) for link in node.links.items())))
    assert {c.pod: c.namespace for c in logged.values()} == {"victim": "ml-training", "sneaky": "research"}
    assert len(logged) == 2
    pods = filter(None, (parse_pod_log_dir(path) for path in node.pod_dirs))
    assert [(namespace, pod) for _, namespace, pod in pods] == [
        ("ml-training", "victim"),
        ("research", "sneaky"),
    ]


@given(link=st.text(st.characters()), target=st.text(st.characters()))
def test_answers_any_text(link: str, target: str) -> None:
    assert parse_container_log_name(link, target) is None
    assert parse_pod_log_dir(target) is None


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(
    namespace=LABELS,
    pod=st.lists(LABELS, min_size=1, max_size=3).map(".".join),
    container=LABELS,
    uid=st.uuids(),
    container_id=st.binary(min_size=32, max_size=32).map(bytes.hex),
)
def test_reads_every_name_that_kubernetes_admits(
    namespace: str, pod: str, container: str, uid: object, container_id: str
) -> None:
    folder = f"{namespace}_{pod}_{uid}"
    found = parse_container_log_name(
        f"{pod}_{namespace}_{container}-{container_id}.log", f"/var/log/pods/{folder}/{container}/3.log"
    )
    assert (container_id, LoggedContainer(namespace, pod, container, PodUid(str(uid)))) == found
    assert (str(uid), namespace, pod) == parse_pod_log_dir(folder)
    assert is_container_name(container)
