"""A kubelet's PodResources API: a real gRPC server on a unix socket whose replies and faults can be set."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

messages: Any = grpc.protos("fakes/proto/podresources.proto")
"""The API's messages, compiled from the published protocol."""


def devices(resource: str, *ids: str) -> Any:
    """ContainerDevices: devices that a device plugin handed out."""
    return messages.ContainerDevices(resource_name=resource, device_ids=ids)


def claim(name: str, *device_names: str, driver: str = "gpu.nvidia.com") -> Any:
    """DynamicResource: a DRA claim and the devices that were allocated for it."""
    claimed = [
        messages.ClaimResource(driver_name=driver, pool_name="node1", device_name=device)
        for device in device_names
    ]
    return messages.DynamicResource(claim_name=name, claim_resources=claimed)


def container(name: str, *resources: Any) -> Any:
    """ContainerResources: a container with what `devices` and `claim` made."""
    held = messages.ContainerResources(name=name)
    for resource in resources:
        claimed = isinstance(resource, messages.DynamicResource)
        (held.dynamic_resources if claimed else held.devices).append(resource)
    return held


def pod(namespace: str, name: str, *containers: Any) -> Any:
    """PodResources: a pod with what `container` made."""
    return messages.PodResources(namespace=namespace, name=name, containers=containers)


def pod_list(*pods: Any) -> bytes:
    """An encoded ListPodResourcesResponse."""
    reply: bytes = messages.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    return reply


def allocatable(*held: Any) -> bytes:
    """An encoded AllocatableResourcesResponse of what `devices` made."""
    reply: bytes = messages.AllocatableResourcesResponse(devices=held).SerializeToString()
    return reply


class FakeKubelet:
    """Serves PodResources on `socket` while it is entered.

    `pods` and `allocatable` are the encoded replies; None means that this kubelet lacks the method. `error` is
    answered instead of a reply, and `delay` seconds pass before any answer.
    """

    def __init__(self, socket: Path, pods: bytes = b"", allocatable: bytes | None = None) -> None:
        self.pods = pods
        self.allocatable = allocatable
        self.error: grpc.StatusCode | None = None
        self.delay = 0.0
        self._stopped = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4, thread_name_prefix="kubelet"))
        methods = {
            "List": self._handler(lambda: self.pods),
            "GetAllocatableResources": self._handler(lambda: self.allocatable),
        }
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
        self._server.add_generic_rpc_handlers([service])
        self._server.add_insecure_port(f"unix:{socket}")

    def _handler(self, reply: Callable[[], bytes | None]) -> Any:
        def answer(_request: bytes, context: grpc.ServicerContext) -> bytes:
            self._stopped.wait(self.delay)
            if self.error is not None:
                context.abort(self.error, "as told")
            if (encoded := reply()) is None:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
            return encoded

        return grpc.unary_unary_rpc_method_handler(answer)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopped.set()
        self._server.stop(grace=None).wait()
