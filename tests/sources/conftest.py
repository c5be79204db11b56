"""An API server on loopback, and a connection to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.apiserver import ApiServer
from fakes.certificates import make_certificate
from gpuledger.sources.kubeapi import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuledger.sources.kubehttp import Connection


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as api:
        yield api


@pytest.fixture
def connection(server: ApiServer, tmp_path: Path) -> Connection:
    return connect("kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
