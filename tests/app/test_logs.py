"""The log: one line per event, for people or for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from gpuledger.app.logs import set_up_logging

log = logging.getLogger("gpuledger.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Give the root logger back as pytest had set it up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def event(message: str) -> logging.LogRecord:
    """An event of 2026-01-01 00:00:00.25."""
    record = logging.LogRecord(log.name, logging.WARNING, __file__, 1, message, ("nvml",), None)
    record.created = 1_767_225_600.25
    return record


def written(record: logging.LogRecord, capsys: pytest.CaptureFixture[str]) -> str:
    log.handle(record)
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "text")

    assert "2026-01-01T00:00:00.250Z warning nvml: gone\n" == written(event("%s: gone"), capsys)


def test_json_is_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "json")

    assert {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "gpuledger.test",
        "message": "nvml: gone",
    } == json.loads(written(event("%s: gone"), capsys))


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("name", ["a\nb", 'a"b', "ジョブ"])
def test_an_event_is_one_line_whatever_is_in_it(
    style: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("info", style)

    line = written(event(f"%s: {name}"), capsys)

    assert line.endswith("\n")
    assert line.count("\n") == 1
    if style == "json":
        assert json.loads(line)["message"] == f"nvml: {name}"


def test_an_exception_stands_with_its_event(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "text")
    failed = event("%s: failed")
    failed.exc_info = (ValueError, ValueError("by nought"), None)
    text = written(failed, capsys).splitlines()
    assert text[0].endswith("nvml: failed")
    assert text[1:] == ["ValueError: by nought"]

    set_up_logging("info", "json")
    line = json.loads(written(failed, capsys))
    assert ("nvml: failed", "ValueError: by nought") == (line["message"], line["exception"])


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
@pytest.mark.parametrize("name", ["gpuledger.app.node.loop", "asyncio"])
def test_only_what_is_severe_enough_is_written(
    level: str, shown: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging(level, "json")
    for severity in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger(name).log(severity, "event")

    assert shown == [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()]


def test_setting_up_again_replaces_what_was(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "json")
    set_up_logging("info", "text")

    assert written(event("%s"), capsys).count("\n") == 1
