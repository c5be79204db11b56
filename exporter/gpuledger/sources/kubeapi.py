"""The Kubernetes API as a source: how to reach it, and the pods of one node."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import gpuledger
from gpuledger.core.errors import SourceError
from gpuledger.core.model import NOTHING, Controller, Pod, PodUid, Workload
from gpuledger.parse.kubeobjects import parse_job, parse_pod_list, parse_watch_event
from gpuledger.sources.kubehttp import KEEPALIVE, ApiError, Connection, Endpoint, one_line
from gpuledger.sources.listwatch import DEFAULT_PACE, ApiConnection, Collection, ListWatch, Pace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kubernetes.client import Configuration

    from gpuledger.core.snapshot import SourceHealth

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_AGENT = {"User-Agent": f"gpuledger/{gpuledger.__version__}"}

_JOB_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 300.0
_NO_JOB = (403, 404)


def connect(
    mode: str, kubeconfig: str = "", context: str = "", *, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """A connection as `mode` (`auto`, `in-cluster`, `kubeconfig`) says; nothing is asked yet.

    `kubeconfig` takes the place of KUBECONFIG, and may name several files as it does. With `auto` the pod's
    service account goes first, unless a file or a `context` is named. Raises SourceError with advice.
    """
    paths = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if mode == "auto":
        in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").is_file()
        mode = "in-cluster" if in_pod and not (kubeconfig or context) else "kubeconfig"
    if mode == "in-cluster":
        return Connection(lambda: _service_account_endpoint(service_account))
    return Connection(lambda: _kubeconfig_endpoint(paths, context))


class PodSource:
    """The pods of `node_name`, kept up to date by a watch that `run` holds in a thread of its own.

    Whether a CronJob created a pod's Job is asked once per Job, for pods that are `relevant`: unless told
    otherwise, those that request an extended resource.
    """

    def __init__(
        self,
        connection: ApiConnection,
        node_name: str,
        *,
        relevant: Callable[[Pod], bool] = lambda pod: bool(pod.requests),
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        query = {"fieldSelector": f"spec.nodeName={node_name}"}
        self._pods = _Pods(_Jobs(connection), relevant)
        self._feed = ListWatch(
            connection, Collection("/api/v1/pods", parse_pod_list, parse_watch_event, query), self._pods, pace
        )

    def run(self, stop: threading.Event) -> None:
        """Follow the API until `stop` is set."""
        self._feed.run(stop)

    def pods(self) -> Mapping[PodUid, Pod]:
        """The newest known, also while the API is away; immutable, and a new object after every change."""
        return self._pods.by_uid

    def health(self) -> SourceHealth:
        """How the API answers; `last_success` is the last list, event or bookmark."""
        return self._feed.health


class _Pods:
    """The watch's sink. A change copies the map of a node's few hundred pods, so that readers need no lock."""

    def __init__(self, jobs: _Jobs, relevant: Callable[[Pod], bool]) -> None:
        self.by_uid: Mapping[PodUid, Pod] = NOTHING
        self._jobs = jobs
        self._relevant = relevant

    def replace(self, objects: Sequence[Pod]) -> None:
        self._publish(objects)
        self._jobs.forget_all_but(objects)
        self._confirm()

    def put(self, new: Pod) -> None:
        self._publish([*({**self.by_uid, new.uid: new}).values()])
        self._confirm()

    def remove(self, uid: str) -> None:
        rest = [pod for pod in self.by_uid.values() if pod.uid != uid]
        self._publish(rest)
        self._jobs.forget_all_but(rest)

    def _confirm(self) -> None:
        """After the pods are published, because they must not wait for their Jobs."""
        doubtful = [pod for pod in self.by_uid.values() if pod.workload.inferred and self._relevant(pod)]
        if self._jobs.ask_about(doubtful):
            self._publish(self.by_uid.values())

    def _publish(self, pods: Iterable[Pod]) -> None:
        self.by_uid = MappingProxyType({pod.uid: self._jobs.applied_to(pod) for pod in pods})


class _Jobs:
    """What the Jobs themselves say about who created them, asked once and remembered while they have pods."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._workloads: dict[str, Workload] = {}
        self._asked_at: dict[str, float] = {}

    def applied_to(self, pod: Pod) -> Pod:
        """`pod` with the workload that its Job told, where it did."""
        workload = self._workloads.get(pod.controller.uid) if pod.controller else None
        return replace(pod, workload=workload) if workload else pod

    def ask_about(self, pods: Iterable[Pod]) -> bool:
        """Ask for the Jobs of `pods`, unless that was lately in vain; whether anything was told.

        Not being allowed to see Jobs, or one that is gone, is no failure of the source; with the first question
        that gets no answer at all the others are put off.
        """
        told = False
        for pod in pods:
            job, now = pod.controller, time.monotonic()
            if job is None or now - self._asked_at.get(job.uid, -_ASK_AGAIN_SECONDS) < _ASK_AGAIN_SECONDS:
                continue
            self._asked_at[job.uid] = now
            try:
                told |= self._ask(pod.namespace, job)
            except ApiError as error:
                if error.status not in _NO_JOB:
                    break
        return told

    def forget_all_but(self, pods: Iterable[Pod]) -> None:
        """Keep only what concerns the Jobs of `pods`."""
        jobs = {pod.controller.uid for pod in pods if pod.controller}
        self._workloads = {uid: workload for uid, workload in self._workloads.items() if uid in jobs}
        self._asked_at = {uid: asked_at for uid, asked_at in self._asked_at.items() if uid in jobs}

    def _ask(self, namespace: str, job: Controller) -> bool:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job.name}"
        with self._connection.get(path, {}, seconds=_JOB_SECONDS) as answer:
            uid, workload = parse_job(answer.body())
        if uid != job.uid:  # another Job that has taken the name since
            return False
        self._workloads[uid] = workload
        return True


def _service_account_endpoint(folder: Path) -> Endpoint:
    """The API as a pod reaches it (Kubernetes docs, "Accessing the Kubernetes API from a Pod").

    Without the client, which would take some 15 MiB on every node for these few lines.
    """
    from urllib3 import PoolManager  # noqa: PLC0415 - `--kube=off` does without

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token, authority = folder / "token", folder / "ca.crt"
    missing = [str(path) for path in (token, authority) if not _has_content(path)]
    if not (host and port):
        missing.append("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
    if missing:
        raise SourceError(
            f"no service account: there is no {' and no '.join(missing)}; let the pod mount its token"
        )

    def headers() -> dict[str, str]:
        try:
            credential = token.read_text(encoding="ascii").strip()  # each time: a bound token is rotated
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"no credentials: {one_line(error)}", status=401) from error
        return {**_AGENT, "authorization": f"Bearer {credential}"}

    pools = PoolManager(ca_certs=str(authority), cert_reqs="CERT_REQUIRED", socket_options=KEEPALIVE)
    name = f"[{host}]" if host and ":" in host else host
    return Endpoint(f"https://{name}:{port}", pools, headers)


def _has_content(path: Path) -> bool:
    try:
        return bool(path.read_bytes().strip())
    except OSError:
        return False


def _kubeconfig_endpoint(paths: str, context: str) -> Endpoint:
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise SourceError(f"no kubeconfig at {paths}; name one with --kubeconfig")
    try:
        from kubernetes.client import Configuration  # noqa: PLC0415 - 34 MiB that the service account does without
        from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415 - as above
        from yaml import YAMLError  # noqa: PLC0415 - as above
    except ImportError as error:
        raise SourceError(
            f"kubeconfig {paths}: the image has no Kubernetes client; pip install gpuledger"
        ) from error
    configuration = Configuration()
    try:
        load_kube_config(paths, context or None, configuration, persist_config=False)
    except (ConfigException, YAMLError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The client lets through whatever it stumbles over in a file that is no kubeconfig.
        raise SourceError(
            f"kubeconfig {paths} can't be used: {one_line(error)}; compare `kubectl config view`"
        ) from error
    return _endpoint(configuration)


def _endpoint(configuration: Configuration) -> Endpoint:
    """Where a configuration leads; its credentials are read for each request, because they rotate."""
    from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415 - 34 MiB that the service account does without
    from kubernetes.config import ConfigException  # noqa: PLC0415 - as above

    def headers() -> dict[str, str]:
        try:
            credentials = configuration.auth_settings().values()
        except (ConfigException, OSError) as error:
            raise ApiError(f"no credentials: {one_line(error)}", status=401) from error
        return _AGENT | {each["key"]: each["value"].strip() for each in credentials}

    configuration.socket_options = KEEPALIVE
    return Endpoint(configuration.host, RESTClientObject(configuration).pool_manager, headers)
