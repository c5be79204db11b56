"""What the demo answers on HTTP: every role below a path of its own, as if each were on its own machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuledger.app.http import Request, Response
from gpuledger.app.site import not_found

_READY = 200


@dataclass(frozen=True, slots=True)
class Role:
    """An exporter: the job and the instance that Prometheus is to know it by, and its site."""

    job: str
    instance: str
    answer: Callable[[Request], Response]


class DemoSite:
    """Dispatches on the beginning of the path; `roles` stand by theirs."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._roles = roles

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
        links = "".join(f'<li><a href="{prefix}/">{prefix}</a></li>' for prefix in self._roles)
        return Response(200, f"<!doctype html><ul>{links}</ul>".encode(), "text/html; charset=utf-8")

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
