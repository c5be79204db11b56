"""Every parser that meets bytes from outside: how it is fed, which errors it may raise, and what it knows.

A target takes any bytes. It returns, or raises one of `raises`; anything else that happens is a fault.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from fakes import kubelet
from fuzz import web
from gpuledger.app.config import ConfigError, resolve
from gpuledger.app.node.scrape import accepts_gzip, preferred_style
from gpuledger.app.settings import ClusterSettings, NodeSettings
from gpuledger.app.web.webconfig import parse_web_config
from gpuledger.audit.baseline import BaselineError, parse_baseline
from gpuledger.audit.checks import CHECKS
from gpuledger.audit.policy import PolicyError, parse_policy
from gpuledger.parse import clusterobjects, kubeobjects, podlogs
from gpuledger.parse.cgroup import parse_cgroup
from gpuledger.parse.devicecel import parse_selected
from gpuledger.parse.deviceid import parse_device_id
from gpuledger.parse.dump import parse_dump
from gpuledger.parse.image import parse_image
from gpuledger.parse.jsonstream import JsonStream, JsonStreamError
from gpuledger.parse.kubelist import ObjectParser, parse_status_message
from gpuledger.parse.manifests import ManifestError, PodManifest, parse_objects
from gpuledger.parse.nesting import cut_nesting
from gpuledger.parse.objectmeta import ObjectMeta
from gpuledger.parse.podrequests import requests_of
from gpuledger.parse.podresources import parse_allocatable, parse_list
from gpuledger.parse.procstat import parse_stat
from gpuledger.parse.protobuf import parse_fields
from gpuledger.parse.quantity import parse_quantity, parse_readable
from gpuledger.parse.reviews import parse_access_review, parse_token_review
from gpuledger.parse.waiting import parse_waiting
from gpuledger.parse.workload import infer_workload, workload_of
from gpuledger.parse.yamldocs import YamlError, parse_yaml, split_yaml

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
NOW = 1_800_000_000.0
EXCUSE = "exceptions:\n- match: {check: gpu-env-bypass}\n  reason: known\n  owner: us\n  expires: 2027-01-31\n"


@dataclass(frozen=True, slots=True)
class Target:
    """A parser; `modules` are those of gpuledger.parse that it leads through, `known` what it should read."""

    run: Callable[[bytes], object]
    known: Callable[[], Iterable[bytes]]
    raises: tuple[type[Exception], ...] = ()
    modules: tuple[str, ...] = ()


def text_of(data: bytes) -> str:
    """Text as file systems give it to us, with what is no UTF-8 as lone surrogates."""
    return data.decode(errors="surrogateescape")


def _cgroup(data: bytes) -> None:
    for root_is_host in (True, False):
        parse_cgroup(text_of(data), root_is_host=root_is_host)


def _pod_logs(data: bytes) -> None:
    name, _, target = text_of(data).partition("\n")
    podlogs.parse_container_log_name(name, target)
    podlogs.parse_pod_log_dir(name)
    podlogs.is_container_name(name)


def _device_id(data: bytes) -> None:
    resource, _, device_id = text_of(data).partition("\n")
    parse_device_id(resource, device_id)


def _quantity(data: bytes) -> None:
    text = text_of(data)
    parse_readable({"cpu": text, "memory": len(text) * 1e300})
    parse_quantity(text)


def _dump(data: bytes) -> None:
    """In pieces, as a pipe gives it."""
    for _ in parse_dump(data[start : start + 1024] for start in range(0, len(data), 1024)):
        pass


def _stream(data: bytes) -> None:
    for _ in JsonStream(iter([data]), parse_objects).objects():
        pass


def _yaml(data: bytes) -> None:
    for _, document in split_yaml(text_of(data)):
        parse_yaml(document)


def _objects(data: bytes) -> None:
    """Also what is asked of a pod when it is known."""
    for found in parse_objects(data):
        if isinstance(found, PodManifest):
            requests_of(found.spec, found.status)
            parse_waiting(found)
            workload_of(found.meta)


def _kube(parser: ObjectParser[Any, Any], data: bytes) -> None:
    """Each way in which the API may send it; an error is one where none is right."""
    parse_status_message(data)
    ways = (parser.parse_object, parser.parse_list, parser.parse_event)
    is_read = [_is_read(parse, data) for parse in ways]
    if not any(is_read):
        raise ValueError


def _is_read(parse: Callable[[bytes], object], data: bytes) -> bool:
    try:
        parse(data)
    except ValueError:
        return False
    return True


def _workload(data: bytes) -> None:
    text = text_of(data)
    infer_workload(text)
    owner, _, labels = text.partition("\n")
    names = iter(re.split(r"[=\n]", labels))
    reference = {"kind": owner.partition("/")[0], "name": owner, "controller": True}
    meta = {"name": owner, "labels": dict(zip(names, names, strict=False)), "ownerReferences": [reference]}
    workload_of(msgspec.convert(meta, ObjectMeta))


def _config(settings: type[NodeSettings | ClusterSettings], data: bytes) -> None:
    flags = dict.fromkeys(settings.__dataclass_fields__)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        resolve(settings, argparse.Namespace(**{**flags, "config_file": file.name}), {})


def _policy(data: bytes) -> None:
    for exception in parse_policy(text_of(data), CHECKS).exceptions:
        exception.expired(NOW)


def _accept(data: bytes) -> None:
    text = data.decode("latin-1")
    preferred_style(text)
    accepts_gzip(text)


# ---- what each should know ----


def _files(pattern: str) -> Iterable[bytes]:
    return (path.read_bytes() for path in sorted(FIXTURES.glob(pattern)))


def _lines(pattern: str) -> Iterable[bytes]:
    return chain.from_iterable(file.splitlines() for file in _files(pattern))


def _log_names() -> Iterable[bytes]:
    container = "0123456789abcdef" * 4
    yield f"train-0_team-a_main-{container}.log\n/var/log/pods/team-a_train-0_{'a' * 32}/main/0.log".encode()
    yield b"team-a_train-0_7f1c8d2e-1111-4222-8333-444455556666"


def _objects_by_one() -> Iterable[bytes]:
    """Single objects: small enough to be changed in many ways."""
    for file in _files("kube-1.36/api-*.json"):
        document = json.loads(file)
        yield from (json.dumps(item).encode() for item in document.get("items", [document]))


def _lists_of_few() -> Iterable[bytes]:
    for file in _files("kube-1.36/api-*.json"):
        document = json.loads(file)
        yield json.dumps({**document, "items": document.get("items", [])[:2]}).encode()


def _kubernetes(*more: str) -> Iterable[bytes]:
    return chain(_texts(*more), _objects_by_one(), _lists_of_few(), _lines("kube-1.36/*.jsonl"))


def _dumps() -> Iterable[bytes]:
    cases = sorted((ROOT / "tests/audit/cases").glob("*/*.yaml"))
    return chain(_lists_of_few(), (path.read_bytes() for path in cases[::8]))


def _arrays() -> Iterable[bytes]:
    return (b"[%b]" % item for item in _objects_by_one())


def _podresources() -> Iterable[bytes]:
    yield from _files("kube-1.36/*.pb")
    yield kubelet.pod_list(
        kubelet.pod("team-a", "train-0", kubelet.container("main", kubelet.devices("nvidia.com/gpu", "GPU-1")))
    )


def _texts(*texts: str) -> Iterable[bytes]:
    return (text.encode() for text in texts)


def _just(*texts: str) -> Callable[[], Iterable[bytes]]:
    return partial(_texts, *texts)


_CLAIM = """{"kind": "ResourceClaim", "metadata": {"name": "a", "namespace": "b", "uid": "c"},
  "spec": {"devices": {"requests": [
    {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}},
  "status": {"allocation": {"devices": {"results": [
    {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node1", "device": "gpu-0"}]}}}}"""
_SLICE = """{"kind": "ResourceSlice", "metadata": {"name": "a", "uid": "c"},
  "spec": {"driver": "gpu.nvidia.com", "nodeName": "node1", "pool": {"name": "node1", "generation": 3},
    "devices": [{"name": "gpu-0", "basic": {}}]}}"""
_EVENT = """{"kind": "Event", "metadata": {"name": "a", "creationTimestamp": "2026-11-30T12:00:00Z"},
  "involvedObject": {"kind": "Pod", "namespace": "b", "name": "p", "uid": "d"}, "reason": "FailedScheduling",
  "count": 3, "lastTimestamp": "2026-11-30T12:34:56Z", "eventTime": null,
  "series": {"count": 7, "lastObservedTime": "2026-11-30T12:34:56.789012Z"}}"""
_WEB = """tls_server_config: {cert_file: a.pem, key_file: b.pem, client_auth_type: RequireAndVerifyClientCert,
  client_ca_file: c.pem, client_allowed_sans: [a], min_version: TLS13}
http_server_config: {http2: false, headers: {X-Frame-Options: deny}}
rate_limit: {interval: 1s, burst: 5}
basic_auth_users: {alice: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}"""
_GPU = "GPU-12345678-1234-1234-1234-123456789abc"
_STAT = f"9213 (tmux: server) S 8858 9213 9213 0 -1 4194560 {'1 ' * 60}"


TARGETS: Mapping[str, Target] = {
    "accept": Target(
        _accept, _just("application/openmetrics-text;version=1.0.0;q=0.7,text/plain;q=0.5,*/*;q=0.1", "gzip, *")
    ),
    "baseline": Target(
        parse_baseline,
        _just('{"gpuledger_baseline": 2, "fingerprints": {"0123456789abcdef0123456789abcdef": "high"}}'),
        raises=(BaselineError,),
    ),
    "cgroup": Target(_cgroup, partial(_files, "nodes/*/cgroups/*"), modules=("cgroup",)),
    "config-cluster": Target(
        partial(_config, ClusterSettings),
        _just("web: {listen-address: ':1'}\nshard: 0/3\ngpu-resource: a.*\nmin-severity: low\nlog.level: info"),
        raises=(ConfigError,),
    ),
    "config-node": Target(
        partial(_config, NodeSettings),
        _just("interval: 200ms\npath: {procfs: /host/proc, pod-logs: /l}\nkube: off\nseries-limit: 5\n"),
        raises=(ConfigError,),
    ),
    "devicecel": Target(
        lambda data: parse_selected(text_of(data), "device.driver"),
        _just(
            """device.driver == "a" && device.attributes["a"].?b in ['x'] // c""",
            '(device.driver in ["a", "b"])',
        ),
        modules=("devicecel",),
    ),
    "deviceid": Target(
        _device_id,
        _just(
            f"nvidia.com/gpu\n{_GPU}::3",
            f"a/b\nMIG-{_GPU}/7/0::1",
            "a\nnvidia0/gi3/vgpu1",
            "nvidia.com/gpu\n12",
        ),
        modules=("deviceid",),
    ),
    "dump": Target(_dump, _dumps, modules=("dump",)),
    "http": Target(web.ask, lambda: web.KNOWN),
    "image": Target(
        lambda data: parse_image(text_of(data)),
        _just("r.example:5000/a/b_c:v1@sha256:" + "0" * 64, "[::1]:5/a", "nvidia/cuda:12.4"),
        raises=(ValueError,),
        modules=("image",),
    ),
    "jobs": Target(
        kubeobjects.parse_job, _objects_by_one, raises=(ValueError,), modules=("kubeobjects", "objectmeta")
    ),
    "jsonstream": Target(_stream, _dumps, raises=(JsonStreamError,), modules=("jsonstream",)),
    "manifests": Target(
        _objects,
        _arrays,
        raises=(ManifestError, msgspec.DecodeError),
        modules=("manifests", "podspec", "claimspec", "podplaces", "podrequests", "waiting"),
    ),
    "nesting": Target(lambda data: cut_nesting(data, 3), _kubernetes, modules=("nesting",)),
    "podlogs": Target(_pod_logs, _log_names, modules=("podlogs",)),
    "podresources": Target(parse_list, _podresources, raises=(ValueError,), modules=("podresources",)),
    "allocatable": Target(parse_allocatable, _podresources, raises=(ValueError,), modules=("podresources",)),
    "policy": Target(_policy, _just(EXCUSE), raises=(PolicyError,)),
    "procstat": Target(parse_stat, _just(_STAT), modules=("procstat",)),
    "protobuf": Target(parse_fields, _podresources, raises=(ValueError,), modules=("protobuf",)),
    "quantity": Target(
        _quantity, _just("1", "500m", "2Gi", "1e3", "-.5E"), raises=(ValueError,), modules=("quantity",)
    ),
    "reviews-access": Target(
        parse_access_review, _just('{"status": {"allowed": true}}'), raises=(ValueError,), modules=("reviews",)
    ),
    "reviews-token": Target(
        parse_token_review,
        _just('{"status": {"authenticated": true, "user": {"username": "a", "groups": ["b"], "extra": {}}}}'),
        raises=(ValueError,),
        modules=("reviews",),
    ),
    "web-config": Target(parse_web_config, _just(_WEB), raises=(ConfigError,)),
    "workload": Target(
        _workload,
        _just(
            "ReplicaSet/web-6d4cf56db6\npod-template-hash=6d4cf56db6",
            "Job/nightly-28888888\njobset.sigs.k8s.io/jobset-name=nightly",
            "web-6d4cf56db6-x7k2p",
        ),
        modules=("workload",),
    ),
    "yamldocs": Target(_yaml, _dumps, raises=(YamlError,), modules=("yamldocs",)),
    **{
        name: Target(
            partial(_kube, parser),
            partial(_kubernetes, *known),
            raises=(ValueError,),
            modules=("kubelist", "kubeobjects" if name == "pods" else "clusterobjects"),
        )
        for name, parser, known in (
            ("pods", kubeobjects._PODS, ()),
            ("nodes", clusterobjects.node_parser(), ()),
            ("quotas", clusterobjects.QUOTAS, ()),
            ("claims", clusterobjects.CLAIMS, (_CLAIM,)),
            ("slices", clusterobjects.SLICES, (_SLICE,)),
            ("events", clusterobjects.WARNINGS, (_EVENT,)),
        )
    },
}
