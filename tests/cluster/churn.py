"""Pods that come and go without rest, and the record of what was true and what an exporter said meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cluster.containers import RunningContainer
from cluster.node import kubectl, kubectl_get
from tools.exposition import Exposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cluster.gpus import NodeGpus

TICK_S = 0.25
"""How often the GPUs' processes change, and pages are looked at."""

Name: TypeAlias = tuple[str, str, str]
"""Namespace, pod and container."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A process that says in its environment whose it is, and which devices its container was given."""

    name: Name
    devices: tuple[str, ...]


def read_marked(namespace: str) -> dict[int, Marked]:
    """Every such process of the namespace, by its PID on the host."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            lines = path.read_text(errors="replace").split("\0")
        except OSError:
            continue  # it has ended since the folder was listed, or is none of the test's
        said = dict(line.partition("=")[::2] for line in lines)
        if said.get("CHURN_NAMESPACE") == namespace:
            name = (namespace, said["CHURN_POD"], said["CHURN_CONTAINER"])
            devices = said.get("NVIDIA_VISIBLE_DEVICES", "")
            found[int(path.parent.name)] = Marked(name, tuple(devices.split(",")) if devices else ())
    return found


@dataclass(slots=True)
class Stint:
    """A process on its GPUs, in Unix seconds."""

    pid: int
    name: Name
    since: float
    until: float


class GpuUse:
    """Puts the namespace's processes on their GPUs and takes them off again, at random, and remembers all."""

    def __init__(self, gpus: NodeGpus, namespace: str, chance: random.Random) -> None:
        self._gpus = gpus
        self._namespace = namespace
        self._chance = chance
        self._on: dict[int, Stint] = {}
        self.stints: list[Stint] = []
        """Those that have ended."""
        self.owners: dict[int, set[Name]] = defaultdict(set)
        """Whose each PID was, one after the other."""
        self.devices: dict[Name, set[str]] = defaultdict(set)
        """What containers of that name were given; the spare GPU, where nothing."""

    def tick(self) -> None:
        """One change."""
        alive = read_marked(self._namespace)
        stays = {
            pid: alive[pid]
            for pid, stint in self._on.items()
            if pid in alive and alive[pid].name == stint.name and self._chance.random() > 0.03
        }
        comes = {pid: m for pid, m in alive.items() if pid not in self._on and self._chance.random() < 0.3}
        for pid, marked in alive.items():
            self.owners[pid].add(marked.name)
            self.devices[marked.name] |= set(self._ids(marked))
        self._gpus.run(
            RunningContainer(m.name[1], m.name[2], (pid,), m.devices) for pid, m in (stays | comes).items()
        )
        now = time.time()
        for pid in self._on.keys() - stays.keys():
            stint = self._on.pop(pid)
            stint.until = now
            self.stints.append(stint)
        self._on |= {pid: Stint(pid, m.name, now, now) for pid, m in comes.items()}

    def _ids(self, marked: Marked) -> Iterator[str]:
        container = RunningContainer(marked.name[1], marked.name[2], (), marked.devices)
        for gpu, mig in self._gpus.devices_of(container):
            yield mig.uuid if mig else gpu.uuid


@dataclass(slots=True)
class Seen:
    """What an exporter said: by cycle (its Unix time) and PID, and of containers altogether."""

    address: str
    scrapes: int = 0
    cycles: dict[float, dict[int, Name]] = field(default_factory=dict)
    users: set[tuple[Name, str]] = field(default_factory=set)
    """Who was shown to use which device."""
    holders: set[tuple[Name, str]] = field(default_factory=set)
    """Who was shown to hold which."""
    results: Counter[str] = field(default_factory=Counter)

    def look(self) -> None:
        """Scrape."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as reply:
            page = Exposition(reply.read().decode())
        self.scrapes += 1
        cycle = page.value("last_cycle_timestamp_seconds")
        if cycle is None or cycle in self.cycles:
            return
        self.cycles[cycle] = {
            int(sample.labels["pid"]): _name(sample.labels)
            for sample in page.series("process_memory_used_bytes")
        }
        self.users |= {
            (_name(s.labels), _device(s.labels)) for s in page.series("container_processes") if s.value
        }
        self.holders |= {(_name(s.labels), _device(s.labels)) for s in page.series("container_allocated")}
        for sample in page.series("attribution_processes"):
            self.results[sample.labels["result"]] += int(sample.value)


def _name(labels: Mapping[str, str]) -> Name:
    return labels["namespace"], labels["pod"], labels["container"]


def _device(labels: Mapping[str, str]) -> str:
    return labels["mig_uuid"] or labels["gpu_uuid"]


@contextmanager
def repeated(action: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Do it every tick in a thread of its own; what it raised ends it and stands in the list."""
    stop, raised = threading.Event(), list[BaseException]()

    def run() -> None:
        while not stop.wait(TICK_S):
            try:
                action()
            except BaseException as error:  # noqa: BLE001 - told in the test's own thread
                raised.append(error)
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield raised
    finally:
        stop.set()
        thread.join(15)


class Churn:
    """Does something to the namespace's pods at each step."""

    def __init__(self, namespace: str, chance: random.Random, render_pod: Callable[[str], str]) -> None:
        self._namespace = namespace
        self._chance = chance
        self._render_pod = render_pod
        self._created = 0
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """One of the things that happen to pods, to one that is running."""
        pods = [
            pod["metadata"]["name"]
            for pod in kubectl_get("pods", "-n", self._namespace)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        briefs = [name for name in pods if name.startswith("brief-")]
        actions = [self._kill, self._exec, self._exec, self._delete, self._evict, self._roll]
        action = self._chance.choice(actions)
        if len(briefs) < 2:
            self._create()
        elif pods:
            with suppress(AssertionError, ProcessLookupError):  # it may have ended since
                action(self._chance.choice(pods))
                self.done[action.__name__.strip("_")] += 1

    def _create(self) -> None:
        """A pod that must come to run: there is no churn where a kubelet does nothing any more."""
        self._created += 1
        self.done["create"] += 1
        name = f"brief-{self._created}"
        kubectl("apply", "-n", self._namespace, "-f", "-", stdin=self._render_pod(name))
        kubectl("wait", f"pod/{name}", "-n", self._namespace, "--for=condition=Ready", "--timeout=60s")

    def _delete(self, pod: str) -> None:
        kubectl("delete", "pod", pod, "-n", self._namespace, "--wait=false")

    def _evict(self, pod: str) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/eviction"
        metadata = {"name": pod, "namespace": self._namespace}
        body = {"apiVersion": _eviction_api(), "kind": "Eviction", "metadata": metadata}
        kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def _roll(self, _: str) -> None:
        kubectl("rollout", "restart", "deployment/rolling", "-n", self._namespace)

    def _exec(self, pod: str) -> None:
        """A process that joins the container and outlives what started it."""
        command = f"sleep {self._chance.randint(3, 20)} >/dev/null 2>&1 </dev/null &"
        kubectl("exec", pod, "-n", self._namespace, "-c", "main", "--", "sh", "-c", command)

    def _kill(self, pod: str) -> None:
        """The container's processes, so that the kubelet makes it anew."""
        victim = (self._namespace, pod, "main")
        for pid in [pid for pid, marked in read_marked(self._namespace).items() if marked.name == victim]:
            os.kill(pid, signal.SIGKILL)


def _eviction_api() -> str:
    """The version of evictions that this server has: policy/v1 since Kubernetes 1.22."""
    groups = json.loads(kubectl("get", "--raw", "/apis/policy"))
    return str(groups["preferredVersion"]["groupVersion"])
