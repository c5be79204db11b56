"""What the demo answers on HTTP: every role below a path of its own, as if each were on its own machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuledger.app.http import Request, Response
from gpuledger.app.pages import markup
from gpuledger.app.pages.demo import render_demo_page
from gpuledger.app.routes import not_found
from gpuledger.core.snapshot import NodeSnapshot
from gpuledger.sources.simulated import DAY_SECONDS

_READY = 200


@dataclass(frozen=True, slots=True)
class Role:
    """An exporter: the job and the instance that Prometheus is to know it by, and its site."""

    job: str
    instance: str
    answer: Callable[[Request], Response]
    snapshot: Callable[[], NodeSnapshot | None] | None = None
    """What a node shows; None for the cluster role."""


class DemoSite:
    """Dispatches on the beginning of the path; `roles` stand by theirs. `hour` is that of the simulated day."""

    def __init__(self, roles: Mapping[str, Role], hour: Callable[[], float]) -> None:
        self._roles = roles
        self._hour = hour

    def answer(self, request: Request) -> Response:
        """The answer to any request."""
        own = {"/": self._overview, "/targets": lambda: self._targets(request), "/readyz": self._readyz}
        if request.path in own:
            return own[request.path]()
        for prefix, role in self._roles.items():
            if request.path == prefix:
                return Response(308, b"", headers={"Location": f"{prefix}/"})
            if request.path.startswith(f"{prefix}/"):
                return role.answer(replace(request, path=request.path.removeprefix(prefix)))
        return not_found((*own, *(f"{prefix}/" for prefix in self._roles)))

    def _overview(self) -> Response:
        nodes = {f"{path}/": role.snapshot() for path, role in self._roles.items() if role.snapshot}
        (cluster,) = (f"{path}/" for path, role in self._roles.items() if not role.snapshot)
        hours, minutes = divmod(int(self._hour() * 60), 60)
        note = f"It is {hours:02}:{minutes:02} there; a day takes {DAY_SECONDS / 60:.0f} minutes."
        return markup.answer(render_demo_page(nodes, cluster, note))

    def _targets(self, request: Request) -> Response:
        """Where the roles' metrics are, in the form of Prometheus' HTTP service discovery."""
        groups = [
            {
                "targets": [request.headers.get("host", "")],
                "labels": {"__metrics_path__": f"{prefix}/metrics", "job": role.job, "instance": role.instance},
            }
            for prefix, role in self._roles.items()
        ]
        return Response(200, json.dumps(groups, indent=2).encode(), "application/json")

    def _readyz(self) -> Response:
        ask = Request("GET", "/readyz", {})
        waiting = [prefix for prefix, role in self._roles.items() if role.answer(ask).status != _READY]
        if waiting:
            return Response(503, f"not ready: {', '.join(waiting)}\n".encode())
        return Response(200, b"ready\n")
