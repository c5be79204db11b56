"""Colours that mean something stay apart for people who lack one kind of cone."""

from __future__ import annotations

from itertools import combinations, starmap
from math import dist

import pytest

from dashboards.test_shape import PALETTE

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]

VISION: dict[str, Matrix] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""How linear RGB is seen: Machado, Oliveira and Fernandes 2009, severity 1."""

TO_XYZ: Matrix = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)

APART = 15
"""In CIE Lab; 2 to 3 is the least that anybody sees between patches side by side."""


def transform(matrix: Matrix, vector: Triple) -> Triple:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def linear(color: str) -> Triple:
    shares = (channel / 255 for channel in bytes.fromhex(color.removeprefix("#")))
    red, green, blue = (((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in shares)
    return red, green, blue


def lab(rgb: Triple) -> Triple:
    red, green, blue = (min(1.0, max(0.0, channel)) for channel in rgb)
    ratios = (part / white for part, white in zip(transform(TO_XYZ, (red, green, blue)), WHITE, strict=True))
    x, y, z = (r ** (1 / 3) if r > 0.008856 else 7.787 * r + 16 / 116 for r in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_differ(vision: str) -> None:
    seen = [lab(transform(VISION[vision], linear(color))) for color in sorted(PALETTE)]

    assert min(starmap(dist, combinations(seen, 2))) > APART
