"""The kubelet's PodResources API on its unix socket: which container was allocated which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.core.errors import SourceError
from gpuledger.core.model import NOTHING, AllocationsReading
from gpuledger.parse.podresources import parse_allocatable, parse_list

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import grpc

# A node of many containers with many devices passes gRPC's default of 4 MiB.
_MAX_REPLY_BYTES = 64 * 2**20


class PodResourcesSource:
    """The kubelet's PodResources API. `timeout` is the deadline of one call, in seconds.

    Source: KEP-606, and KEP-2403 for allocatable devices.
    """

    def __init__(self, socket: Path, timeout: float = 5.0) -> None:
        self._socket = socket
        self._timeout = timeout

    def read(self) -> AllocationsReading:
        """What is allocated now; raises SourceError where the kubelet does not answer.

        The connection is not kept: with one open, gRPC's six threads wake up all the time, which costs more
        than to connect every few seconds.
        """
        import grpc  # noqa: PLC0415 - 21 MiB that commands without a kubelet do without

        options = [("grpc.max_receive_message_length", _MAX_REPLY_BYTES)]
        try:
            with grpc.insecure_channel(f"unix:{self._socket}", options) as channel:
                allocations = parse_list(self._call(channel, "List"))
                return AllocationsReading(allocations, self._read_allocatable(channel))
        except grpc.RpcError as error:
            raise SourceError(f"kubelet PodResources: {self._explain(error)}") from error
        except ValueError as error:
            raise SourceError(f"kubelet PodResources: the reply is not understood: {error}") from error

    def _read_allocatable(self, channel: grpc.Channel) -> Mapping[str, int]:
        import grpc  # noqa: PLC0415 - as in read

        try:
            return parse_allocatable(self._call(channel, "GetAllocatableResources"))
        except grpc.RpcError as error:
            # Without the method, or (1.21 and 1.22) with its feature gate off.
            if error.code() not in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN):
                raise
            return NOTHING

    def _call(self, channel: grpc.Channel, method: str) -> bytes:
        call = channel.unary_unary(
            f"/v1.PodResourcesLister/{method}", request_serializer=bytes, response_deserializer=bytes
        )
        reply: bytes = call(b"", timeout=self._timeout)
        return reply

    def _explain(self, error: grpc.RpcError) -> str:
        code, details = error.code().name, " ".join((error.details() or "").split())
        if "No such file" in details:
            return f"{self._socket} does not exist: mount the host's {self._socket.parent} there"
        if code == "UNAVAILABLE":
            return f"no connection to {self._socket}: {details.rpartition(': ')[2]}; is the kubelet running?"
        if code == "DEADLINE_EXCEEDED":
            return f"no answer on {self._socket} within {self._timeout:g} s"
        return f"{code}: {details}"
