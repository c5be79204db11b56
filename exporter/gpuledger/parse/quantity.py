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

_MAX_LENGTH = 100
_LEAST = Decimal("1e-9")
"""What apimachinery rounds smaller quantities up to."""
MAX_AMOUNT = Decimal(2**63 - 1)
"""What apimachinery caps a quantity at."""

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

    The grammar is that of apimachinery's `resource.ParseQuantity`; the length is bounded to what anybody
    writes, exponents to three digits.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"not a Kubernetes quantity: {text[:80]!r}")
    number, suffix, exponent = match.groups()
    amount = Decimal(number) * _MULTIPLIERS[suffix] if exponent is None else Decimal(f"{number}e{exponent}")
    return _LEAST if 0 < amount < _LEAST else amount


@lru_cache(maxsize=4096)
def parse_amount(quantity: str | float) -> Decimal:
    """A quantity in a resource list, as JSON carries it, which Kubernetes wants from 0 up to its cap.

    Raises:
        ValueError: it is not a quantity, or none that Kubernetes takes there.
    """
    amount = parse_quantity(str(quantity))
    if not 0 <= amount <= MAX_AMOUNT:
        raise ValueError(f"out of range: {str(quantity)[:80]!r}")
    return amount


@lru_cache(maxsize=4096)
def readable_amount(quantity: str | float | None) -> Decimal | None:
    """As `parse_amount`; None where there is no quantity, or none that can be read."""
    try:
        return None if quantity is None else parse_amount(quantity)
    except ValueError:
        return None


def parse_readable(quantities: Mapping[str, str | int | float]) -> dict[str, Decimal]:
    """The amounts of a resource list that can be read; the others are left out."""
    amounts = ((name, readable_amount(quantity)) for name, quantity in quantities.items())
    return {name: amount for name, amount in amounts if amount is not None}
