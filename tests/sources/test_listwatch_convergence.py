"""Whatever happens to pods, connection and server: nothing is believed that never was, and the truth wins."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fakes.apiserver import ApiServer, Fault, a_list, a_watch
from fakes.podwatch import NODE, eventually, pod, synced
from gpuledger.parse.kubeobjects import parse_pod
from gpuledger.sources.kubeapi import PodSource, connect
from gpuledger.sources.listwatch import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuledger.core.model import Pod

PODS = st.sampled_from(["a", "b", "c", "d"])
NODES = st.sampled_from([NODE, NODE, NODE, "node2", ""])
PHASES = st.sampled_from(["Pending", "Running", "Succeeded"])
FAULTS = st.builds(
    Fault,
    where=st.sampled_from([a_list, a_watch]),
    times=st.integers(1, 3),
    status=st.sampled_from([200, 200, 200, 401, 403, 410, 429, 500]),
    body=st.sampled_from([None, None, None, b"", b"<html>", b'{"type":"ADDED","object":{}}\n']),
    after=st.integers(0, 700),
    then=st.sampled_from(["", "cut", "silence"]),
)
PACE = Pace(watch=1, margin=0.1, answer=0.3, backoff=0.005, backoff_max=0.02)


class AnyCluster(RuleBasedStateMachine):
    """Writes to a cluster and trouble on the way to it, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ApiServer(bookmark_seconds=0.05).__enter__()
        self.listening = True
        self.folder = tempfile.TemporaryDirectory()
        kubeconfig = self.api.kubeconfig(Path(self.folder.name) / "kubeconfig")
        self.source = PodSource(connect("kubeconfig", str(kubeconfig)), NODE, pace=PACE)
        self.published: list[tuple[Pod, ...]] = []
        self.source._pods._publish = self.record(self.source._pods._publish)  # type: ignore[method-assign] # to see each
        self.history: dict[str, list[Pod]] = defaultdict(list)
        self.seen: dict[str, int] = {}
        self.writes = 0
        """How many there were: it makes every pod that ever was a value of its own."""
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.source.run, args=(self.stop,), daemon=True)
        self.thread.start()
        synced(self.source)

    def record(self, publish: Any) -> Any:
        def recording(pods: Iterable[Pod]) -> None:
            pods = tuple(pods)
            self.published.append(pods)
            publish(pods)

        return recording

    def stored(self, name: str) -> dict[str, Any] | None:
        return self.api.store.get("pods", "ml", name)

    @rule(name=PODS, node=NODES, phase=PHASES)
    def write(self, name: str, node: str, phase: str) -> None:
        """Create a pod, or change it; one that is bound stays where it is."""
        old = self.stored(name)
        if old is not None:
            node = old["spec"]["nodeName"] or node
        changed = pod(name, node, phase, **({"uid": old["metadata"]["uid"]} if old else {}))
        self.writes += 1
        changed["status"]["containerStatuses"] = [{"name": "main", "restartCount": self.writes}]
        written = self.api.add(changed)
        self.history[written["metadata"]["uid"]].append(parse_pod(json.dumps(written).encode()))

    @rule(name=PODS)
    def delete(self, name: str) -> None:
        if (old := self.stored(name)) is not None:
            self.api.delete(old)

    @rule(name=PODS, phase=PHASES)
    def recreate(self, name: str, phase: str) -> None:
        """Another pod of the same name, as a StatefulSet makes it."""
        self.delete(name)
        self.write(name, NODE, phase)

    @rule(seconds=st.sampled_from([0.005, 0.03]))
    def let_some_time_pass(self, seconds: float) -> None:
        time.sleep(seconds)

    @rule()
    def compact(self) -> None:
        self.api.compact()

    @rule()
    def cut(self) -> None:
        self.api.cut()

    @rule()
    def toggle(self) -> None:
        """Stop listening, or listen again."""
        (self.api.refuse if self.listening else self.api.accept)()
        self.listening = not self.listening

    @rule(fault=FAULTS)
    def trouble(self, fault: Fault) -> None:
        self.api.faults.append(fault)
        self.api.cut()

    @rule()
    def settle(self) -> None:
        """Once it is quiet, what is known is what there is."""
        self.api.faults.clear()
        if not self.listening:
            self.toggle()
        truth = {
            obj["metadata"]["uid"]: self.history[obj["metadata"]["uid"]][-1]
            for obj in (self.stored(name) for name in "abcd")
            if obj is not None and obj["spec"]["nodeName"] == NODE
        }
        synced(self.source)
        eventually(truth, lambda: dict(self.source.pods()))

    @invariant()
    def nothing_is_believed_that_never_was(self) -> None:
        """And no pod goes back to what it was before."""
        published, self.published[:] = self.published[:], []
        for one in (each for pods in published for each in pods):
            index = self.history[one.uid].index(one)
            assert index >= self.seen.get(one.uid, 0)
            self.seen[one.uid] = index

    def teardown(self) -> None:
        self.settle()
        self.stop.set()
        self.thread.join(1.0)
        self.api.__exit__()
        self.folder.cleanup()
        assert not self.thread.is_alive()


TestAnyCluster = AnyCluster.TestCase
TestAnyCluster.settings = settings(max_examples=settings().max_examples // 5, stateful_step_count=30)
