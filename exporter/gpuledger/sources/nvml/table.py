"""The table of readings as one GPU answers it."""

from __future__ import annotations

from typing import Any

import pynvml

from gpuledger.sources.nvml.driver import Calls
from gpuledger.sources.nvml.plausible import Values
from gpuledger.sources.nvml.readings import FIELDS, READINGS, Field, Reading, Tier

RARE_ROUNDS = 6

_UNION_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


class Table:
    """Reads those rows into `values` that this GPU does not refuse."""

    def __init__(self, calls: Calls, values: Values) -> None:
        self._calls = calls
        self._values = values
        self._rows = {tier: [row for row in READINGS if row.tier is tier] for tier in Tier}
        self._fields = list(FIELDS)
        self._rounds = 0

    def read_fast(self) -> None:
        """Read what changes from cycle to cycle."""
        for row in self._rows[Tier.FAST]:
            self._read(row)

    def read_slow(self) -> None:
        """Read what changes rarely, and what never changes until it has been told."""
        rare = () if self._rounds % RARE_ROUNDS else self._rows[Tier.RARE]
        self._rounds += 1
        for row in (*self._rows[Tier.SLOW], *rare):
            self._read(row)
        self._rows[Tier.STATIC] = [row for row in self._rows[Tier.STATIC] if not self._read(row)]
        self._read_fields()
        refused = self._calls.refused
        self._rows = {tier: [row for row in rows if row not in refused] for tier, rows in self._rows.items()}
        self._fields = [field for field in self._fields if field not in refused]

    def unsupported(self) -> set[str]:
        """The metrics of which this GPU refuses every series."""
        refused = self._calls.refused
        rows = [(name, row) for row in READINGS for name, _ in row.series] + [(f.name, f) for f in FIELDS]
        return {name for name, _ in rows} - {name for name, row in rows if row not in refused}

    def _read(self, row: Reading) -> bool:
        """Read one row; tells whether there was an answer."""
        answer = self._calls.ask_newest(row, row.calls, self._calls.handle, *row.args)
        if answer is None:
            self._values.forget(row.series)
            return False
        for series, value in zip(row.series, row.parse(answer), strict=True):
            self._values.put(series, value)
        return True

    def _read_fields(self) -> None:
        fields = self._fields
        if not fields:
            return
        wanted = [(field.field_id, field.scope) for field in fields]
        answer = self._calls.ask("fields", pynvml.nvmlDeviceGetFieldValues, self._calls.handle, wanted)
        if answer is None:
            self._values.forget(field.series for field in fields)
            if "fields" in self._calls.refused:
                self._calls.refused.update(fields)
            return
        for field, told in zip(fields, answer, strict=True):
            self._values.put(field.series, self._field_value(field, told))

    def _field_value(self, field: Field, told: Any) -> float | None:
        if told.nvmlReturn != pynvml.NVML_SUCCESS:
            self._calls.judge(field, told.nvmlReturn)
            return None
        member = _UNION_MEMBERS.get(told.valueType)
        return None if member is None else field.unit(getattr(told.value, member))
