"""A leak is told from noise."""

from __future__ import annotations

import random

import pytest

from soak.growth import Size, grown

MIB = 2**20


def sizes(*, leak: float = 0.0, series: float = 0.0, warm_up: float = 0.0) -> list[Size]:
    """A hundred samples that tremble, with so much more of something at the end."""
    chance = random.Random(1)  # noqa: S311 - no secret
    return [
        Size(
            int(60 * MIB + chance.uniform(0, 2) * MIB + leak * number / 100 + warm_up * min(number, 30) / 30),
            20 + number % 2,
            8,
            int(400 + chance.uniform(0, 40) + series * number / 100),
        )
        for number in range(100)
    ]


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        pytest.param(sizes(), set(), id="noise"),
        pytest.param(sizes(warm_up=20 * MIB), set(), id="a warm-up"),
        pytest.param(sizes(leak=10 * MIB), {"memory"}, id="memory"),
        pytest.param(sizes(series=100), {"series"}, id="series"),
    ],
)
def test_what_grows_is_found(samples: list[Size], found: set[str]) -> None:
    assert found == grown(samples).keys()
