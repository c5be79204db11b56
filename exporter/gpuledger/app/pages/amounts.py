"""Amounts as people read them; what is unknown is `n/a`, and never 0."""

from __future__ import annotations

from decimal import Decimal
from time import gmtime, strftime

UNKNOWN = "n/a"

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def percent(ratio: float | None) -> str:
    """A ratio."""
    return UNKNOWN if ratio is None else f"{ratio:.0%}"


def gibibytes(size: float | None) -> str:
    """Bytes."""
    return UNKNOWN if size is None else f"{size / 2**30:.1f} GiB"


def measure(value: float | None, unit: str) -> str:
    """A value with its unit."""
    return UNKNOWN if value is None else f"{value:,.0f} {unit}"


def count(number: float | Decimal | None) -> str:
    """A number of things."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def age(seconds: float | None) -> str:
    """A time span, as kubectl shows ages: the two largest units, or one where that is precise enough."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return f"{whole // _DAY}d"


def clock(time: float | None) -> str:
    """The time of day of a Unix time, in UTC."""
    return UNKNOWN if time is None else strftime("%H:%M:%S", gmtime(time))


def moment(time: float) -> str:
    """A Unix time, in UTC."""
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(time))
