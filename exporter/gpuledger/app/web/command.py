"""The guard that a role's settings ask for."""

from __future__ import annotations

from collections.abc import Callable

from gpuledger.app.settings import WebSettings
from gpuledger.app.web.security import WebSecurity
from gpuledger.sources.kubehttp import Connection
from gpuledger.sources.reviews import ReviewSource


def make_guard(settings: WebSettings, connect: Callable[[], Connection]) -> WebSecurity:
    """The guard; `connect` is called where the API has to be asked. Raises ConfigError and SourceError."""
    reviewer = ReviewSource(connect()) if settings.web_kubernetes_auth else None
    return WebSecurity(settings.web_config_file, reviewer)
