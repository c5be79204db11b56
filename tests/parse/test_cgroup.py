"""Every runtime, driver and namespace gives its process away by the cgroup's name; nothing else does."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.nodes import NODES, read_node
from gpuledger.core.model import Cgroup, ContainerId, PodUid
from gpuledger.parse.cgroup import parse_cgroup

UID = "0f5c9a9e-2d3b-4c1f-8a77-6a1d2e3f4b5c"
UID_ = UID.replace("-", "_")
OTHER = "11111111-2222-3333-4444-555555555555"
CID = "c2a243374a7f39554c08a717fcd27a8be06979128bc0221d864bdebc7108483e"
QOS_CLASSES = ("guaranteed", "burstable", "besteffort")


@pytest.mark.parametrize("name", NODES)
def test_reads_every_process_of_a_captured_node(name: str) -> None:
    node = read_node(name)
    found = {pid: parse_cgroup(text, root_is_host=node.root_is_host) for pid, text in node.cgroups.items()}
    assert node.expected == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"9:pids:/user.slice\n5:memory:/kubepods/pod{UID}/{CID}\n1:name=systemd:/system.slice/x.service\n",
            Cgroup("pod", PodUid(UID), ContainerId(CID), "guaranteed"),
            id="the line that says most",
        ),
        pytest.param(
            f"9:pids:/kubepods/pod{OTHER}/{CID}\n1:name=systemd:/kubepods/pod{UID}/{CID}\n0::/kubepods/pod{OTHER}/{CID}\n",
            Cgroup("pod", PodUid(UID), ContainerId(CID), "guaranteed"),
            id="systemd's line among equals",
        ),
        pytest.param(
            f"3:cpu,cpuacct:/kubepods/pod{OTHER}/{CID}\n2:memory,pids:/kubepods/pod{UID}/{CID}\n",
            Cgroup("pod", PodUid(UID), ContainerId(CID), "guaranteed"),
            id="the memory controller's line next",
        ),
        pytest.param("5:memory:/\n0::/..\n", Cgroup("hidden"), id="a line that leads out of the namespace"),
        pytest.param("5:memory:/\n0::/system.slice\n", Cgroup("host"), id="a slice is no unit that runs"),
    ],
)
def test_where_lines_disagree(text: str, expected: Cgroup) -> None:
    assert expected == parse_cgroup(text)


@pytest.mark.parametrize(
    ("root_is_host", "kind"),
    [pytest.param(True, "host", id="host"), pytest.param(False, "hidden", id="hidden")],
)
def test_a_bare_root_is_what_the_reader_knows_it_to_be(root_is_host: bool, kind: str) -> None:  # noqa: FBT001 - a table's column
    assert kind == parse_cgroup("0::/\n", root_is_host=root_is_host).kind


@st.composite
def container_paths(draw: st.DrawFn) -> tuple[str, Cgroup]:
    """Draw a path as some runtime under some driver makes it, and what it means."""
    ids = draw(st.uuids())
    uid = draw(st.sampled_from([str(ids), ids.hex]))
    container_id = "".join(draw(st.lists(st.sampled_from("0123456789abcdef"), min_size=64, max_size=64)))
    qos = draw(st.sampled_from(QOS_CLASSES))
    prefix, top = draw(
        st.sampled_from([("", ""), ("kubelet-", "/kubelet.slice"), ("a-b-", "/a.slice/a-b.slice")])
    )
    infix = "" if qos == "guaranteed" else f"{qos}-"
    pod_slice = f"{prefix}kubepods-{infix}pod{uid.replace('-', '_')}.slice"
    middle = "" if qos == "guaranteed" else f"/{prefix}kubepods-{qos}.slice"
    systemd = f"{top}/{prefix}kubepods.slice{middle}/{pod_slice}"
    cgroupfs = f"{top.removesuffix('.slice')}/kubepods{'' if qos == 'guaranteed' else '/' + qos}/pod{uid}"
    path = draw(
        st.sampled_from(
            [
                *(
                    f"{systemd}/{runtime}-{container_id}.scope"
                    for runtime in ("cri-containerd", "crio", "docker")
                ),
                *(f"{cgroupfs}/{runtime}{container_id}" for runtime in ("", "crio-")),
                f"/system.slice/containerd.service/{pod_slice}:cri-containerd:{container_id}",
                f"/../../../{pod_slice}/cri-containerd-{container_id}.scope",
            ]
        )
    )
    outside = draw(st.sampled_from(["", f"/docker/{CID}", f"/machine.slice/libpod-{CID}.scope/container"]))
    inside = draw(st.sampled_from(["", "/container", "/init.scope", f"/docker/{CID}", "/x.slice/y.service"]))
    if not path.startswith("/.."):
        path = outside + path
    return path + inside, Cgroup("pod", PodUid(uid), ContainerId(container_id), qos)


@given(
    drawn=container_paths(),
    line=st.sampled_from(["0::{}", "7:cpu:/\n4:memory:{}\n1:name=systemd:/", "2:pids:{} (deleted)"]),
)
def test_finds_the_container_of_every_runtime_driver_and_nesting(drawn: tuple[str, Cgroup], line: str) -> None:
    path, expected = drawn
    assert expected == parse_cgroup(line.format(path) + "\n")


@given(drawn=container_paths(), outer=container_paths())
def test_the_last_of_nested_pods_owns_the_process_and_keeps_the_first(
    drawn: tuple[str, Cgroup], outer: tuple[str, Cgroup]
) -> None:
    found = parse_cgroup(f"0::{outer[0]}{drawn[0]}\n")
    assert drawn[1].pod_uid == found.pod_uid
    assert found.outer is not None
    assert (outer[1].pod_uid, outer[1].container_id, None) == (
        found.outer.pod_uid,
        found.outer.container_id,
        found.outer.outer,
    )


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("ollama.service", "ollama.service"),
        ("user@1000.service", "user@1000.service"),
        ("jupyter@alice.service", "jupyter@alice.service"),
        ("gpu-2.service", "gpu-2.service"),
        ("init.scope", "init.scope"),
        ("session-42.scope", "session-*.scope"),
        ("session-c3.scope", "session-*.scope"),
        ("run-u1234.service", "run-*.service"),
        ("run-p4711-i4712.service", "run-*-*.service"),
        ("run-r0123456789abcdef0123456789abcdef.scope", "run-*.scope"),
        ("app-gnome-firefox-4242.scope", "app-gnome-firefox-*.scope"),
        ("tmux-spawn-2fa837fd-7da1-4896-863d-368a4ca73c2d.scope", "tmux-spawn-*.scope"),
        ("gpu-job@4f1c9be2.service", "gpu-job@*.service"),
        ("sshd@7-10.0.0.1:22-10.0.0.9:51234.service", "sshd@*.service"),
    ],
)
def test_units_that_are_numbered_as_they_are_made_are_one(name: str, unit: str) -> None:
    assert unit == parse_cgroup(f"0::/system.slice/{name}\n").unit


PIECES = st.sampled_from(
    [
        "0::",
        "1:name=systemd:",
        "/",
        "..",
        "kubepods",
        ".slice",
        "-pod",
        UID,
        UID_,
        CID,
        "crio-",
        ":",
        ".scope",
        "\n",
        "\0",
        "\udcff",
    ]
)


@given(text=st.one_of(st.text(st.characters()), st.lists(PIECES).map("".join)))
def test_answers_any_text(text: str) -> None:
    cgroup = parse_cgroup(text)
    assert cgroup.kind in {"pod", "container", "host", "hidden"}
    assert len(cgroup.unit) <= 128
    assert cgroup.unit.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0::" + "/a-" * 3_000_000, id="names"),
        pytest.param("0::/" + "a:b-" * 3_000_000, id="one name"),
        pytest.param("0::/" + "kubepods-" * 1_000_000, id="almost a pod"),
        pytest.param(f"0::{f'/pod{UID}' * 200_000}", id="pods"),
        pytest.param("0::/..\n" * 1_000_000, id="lines"),
    ],
)
def test_megabytes_take_no_longer_than_the_kernel_could_ask_for(text: str) -> None:
    started = time.process_time()
    parse_cgroup(text)
    assert time.process_time() - started < 0.5


def test_what_a_user_names_below_their_own_service_manager_is_no_pod() -> None:
    """user@.service is delegated: whoever owns it makes cgroups of any name there, without being root."""
    pod = "kubepods.slice/kubepods-pod2fa837fd_7da1_4896_863d_368a4ca73c2d.slice"
    manager = "/user.slice/user-1000.slice/user@1000.service"
    container_id = "c" * 64

    forged = parse_cgroup(f"0::{manager}/{pod}/cri-containerd-{container_id}.scope\n")

    assert (forged.kind, forged.pod_uid) == ("container", None)
    assert parse_cgroup(f"0::{manager}/{pod}\n").kind == "host"
