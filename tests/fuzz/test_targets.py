"""Whatever comes in, a parser returns or raises what it says it may, within bounded time and memory."""

from __future__ import annotations

import functools
import pkgutil
import resource
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuledger.parse
from fuzz.mutations import HOSTILE, near
from fuzz.targets import TARGETS

SECONDS = 1.0
"""Of the processor, for a hostile input; what is linear takes a hundredth."""
BYTES = 100 * 2**20

PACKAGED = {"xids"}
"""Parsers of files that are part of the package, and tested with it."""


@functools.cache
def known(target: str) -> Sequence[bytes]:
    return tuple(TARGETS[target].known())


def is_read(target: str, data: bytes) -> bool:
    """Whether the parser takes it; anything but the errors that it may raise is passed on."""
    try:
        TARGETS[target].run(data)
    except TARGETS[target].raises:
        return False
    return True


def test_every_parser_is_fuzzed() -> None:
    modules = {module.name for module in pkgutil.iter_modules(gpuledger.parse.__path__)}
    assert modules - PACKAGED == {module for target in TARGETS.values() for module in target.modules}


@pytest.mark.parametrize("target", TARGETS)
def test_begins_with_something_that_is_read(target: str) -> None:
    assert any(is_read(target, data) for data in known(target))


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 3)  # of each of many
def test_answers_whatever_comes(target: str, data: st.DataObject) -> None:
    is_read(target, data.draw(near(known(target)) | st.binary()))


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_inputs_cost_no_more_than_others(target: str) -> None:
    most = peak()
    assert {} == {name: spent for name, data in HOSTILE.items() if (spent := seconds(target, data)) > SECONDS}
    assert peak() - most < BYTES


def seconds(target: str, data: bytes) -> float:
    """What it takes of the processor."""
    began = time.process_time()
    is_read(target, data)
    return time.process_time() - began


def peak() -> int:
    """The most memory that this process has had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
