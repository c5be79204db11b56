"""What all sites answer in the same way, whatever they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gpuledger.app.http import Request, Response


def dispatch(request: Request, routes: Mapping[str, Callable[[], Response]]) -> Response:
    """The answer of the route that the request's path names."""
    route = routes.get(request.path)
    return route() if route is not None else not_found(routes)


def not_found(routes: Iterable[str]) -> Response:
    """404, with what there is instead."""
    return Response(404, f"not found; there is {', '.join(routes)}\n".encode())


def healthz(troubles: Sequence[str]) -> Response:
    """503 with the troubles that a restart cures, 200 where there are none."""
    return Response(503, ("\n".join(troubles) + "\n").encode()) if troubles else Response(200, b"ok\n")
