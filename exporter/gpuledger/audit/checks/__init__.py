"""One check a file; a module's check bears the module's name, and this package gathers them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from gpuledger.audit.check import Check
from gpuledger.audit.runtime import RUNTIME_CHECKS


def _gather() -> tuple[Check, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(getattr(import_module(f"{__name__}.{name}"), name) for name in names)


STATIC_CHECKS: tuple[Check, ...] = _gather()
CHECKS: dict[str, Check] = {check.id: check for check in (*STATIC_CHECKS, *RUNTIME_CHECKS)}
