"""A stand-in Kubernetes device plugin: it offers GPUs that need not exist, as NVIDIA's plugin names them.

As a script it offers them until it is ended (run in `tests/`, on a node, as root):
`python -m fakes.device_plugin nvidia.com/gpu=GPU-<uuid>,GPU-<uuid> nvidia.com/gpu.shared=GPU-<uuid>::0`
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc

KUBELET_DIRECTORY = Path("/var/lib/kubelet/device-plugins")

messages: Any = grpc.protos("fakes/proto/deviceplugin.proto")


class DevicePlugin:
    """Offers `device_ids` as `resource` to the kubelet that watches `directory`, while it is entered.

    Containers learn what they got as NVIDIA_VISIBLE_DEVICES; `allocated` holds each Allocate call's devices.
    """

    def __init__(self, resource: str, device_ids: Sequence[str], directory: Path = KUBELET_DIRECTORY) -> None:
        self.allocated: list[tuple[str, ...]] = []
        self._resource = resource
        self._devices = [messages.Device(ID=device_id, health="Healthy") for device_id in device_ids]
        self._kubelet = directory / "kubelet.sock"
        self._socket = directory / f"fake-{resource.replace('/', '-')}.sock"
        self._ended = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4, thread_name_prefix=self._socket.stem))
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                self._options, response_serializer=messages.DevicePluginOptions.SerializeToString
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list, response_serializer=messages.ListAndWatchResponse.SerializeToString
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self._allocate,
                request_deserializer=messages.AllocateRequest.FromString,
                response_serializer=messages.AllocateResponse.SerializeToString,
            ),
        }
        service = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)
        self._server.add_generic_rpc_handlers([service])

    def _options(self, _request: bytes, _context: grpc.ServicerContext) -> Any:
        return messages.DevicePluginOptions()

    def _list(self, _request: bytes, _context: grpc.ServicerContext) -> Iterator[Any]:
        yield messages.ListAndWatchResponse(devices=self._devices)
        self._ended.wait()
        yield messages.ListAndWatchResponse()

    def _allocate(self, request: Any, _context: grpc.ServicerContext) -> Any:
        held = [tuple(wanted.devices_ids) for wanted in request.container_requests]
        self.allocated += held
        return messages.AllocateResponse(
            container_responses=[
                messages.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})
                for ids in held
            ]
        )

    def __enter__(self) -> Self:
        """Serve, then register: the kubelet connects back at once."""
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()
        registration = messages.RegisterRequest(
            version="v1beta1", endpoint=self._socket.name, resource_name=self._resource
        )
        with grpc.insecure_channel(f"unix:{self._kubelet}") as channel:
            register = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=messages.RegisterRequest.SerializeToString,
                response_deserializer=messages.Empty.FromString,
            )
            register(registration, timeout=30, wait_for_ready=True)  # its socket may be of before a restart
        return self

    def __exit__(self, *_exception: object) -> None:
        """Tell the kubelet that no device is left, then stop."""
        self._ended.set()
        self._server.stop(grace=2).wait()
        self._socket.unlink(missing_ok=True)


def main() -> None:
    """Offer what the command line names until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("offers", nargs="+", metavar="RESOURCE=ID[,ID…]")
    parser.add_argument("--directory", type=Path, default=KUBELET_DIRECTORY)
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    offers: Mapping[str, str] = dict(offer.split("=", 1) for offer in arguments.offers)
    with contextlib.ExitStack() as stack:
        for resource, ids in offers.items():
            stack.enter_context(DevicePlugin(resource, ids.split(","), arguments.directory))
        ended.wait()


if __name__ == "__main__":
    main()
