"""What all tests of this folder share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboards.rig import Rig, running_rig

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Exporters of every kind, scraped by Prometheus with the rules loaded."""
    with running_rig(tmp_path_factory.mktemp) as rig:
        yield rig
