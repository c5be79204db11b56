"""Kubernetes resource quantities: `1`, `500m`, `2Gi`, `1e3`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)

_MULTIPLIERS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal:
    """The number that a Kubernetes quantity stands for, in its base unit (cores, bytes, devices).

    The grammar is that of apimachinery's `resource.ParseQuantity`; exponents are bounded to three digits.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text[:80]!r}")
    number, suffix, exponent = match.groups()
    if exponent is not None:
        return Decimal(f"{number}e{exponent}")
    return Decimal(number) * _MULTIPLIERS[suffix]


def parse_readable(quantities: Mapping[str, str | int | float]) -> dict[str, Decimal]:
    """The quantities of a resource list that can be read; the others are left out."""
    result = {}
    for name, quantity in quantities.items():
        try:
            result[name] = parse_quantity(str(quantity))
        except ValueError:
            continue
    return result
