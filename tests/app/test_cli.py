"""The command line: what scripts rely on, and what a person who mistypes is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType

import pytest

from gpuledger import __version__
from gpuledger.app import cli
from gpuledger.app.cli import COMMANDS, main
from gpuledger.app.config import options_of
from gpuledger.app.settings import CommonSettings, DemoSettings, NodeSettings


def exit_code(*arguments: str) -> int:
    """Run the command line as the console script does, which raises what `main` returns."""
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def gpuledger(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_without_arguments_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code() == 2

    out, err = capsys.readouterr()
    assert err == ""
    for name, command in COMMANDS.items():
        assert name in out
        assert command.summary in " ".join(out.split())


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"gpuledger {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nod"], "gpuledger: unknown command nod; did you mean node?; see `gpuledger --help`"),
        (["frobnicate"], "gpuledger: unknown command frobnicate; see `gpuledger --help`"),
        (
            ["--verison"],
            "gpuledger: unknown argument --verison; did you mean --version?; see `gpuledger --help`",
        ),
        (["node", "stray"], "gpuledger node: unknown argument stray; see `gpuledger node --help`"),
        (
            ["node", "--inter=1s"],
            "gpuledger node: unknown argument --inter; did you mean --interval?; see `gpuledger node --help`",
        ),
        (
            ["node", "--interval"],
            "gpuledger node: argument --interval: expected one argument; see `gpuledger node --help`",
        ),
        (
            ["node", "--interval=fast"],
            "gpuledger node: --interval: 'fast' can't be used: write a duration such as 200ms, 1s, 1m30s or 2h",
        ),
        (["demo", "--port=70000"], "gpuledger demo: --port: '70000' can't be used: write a port, 1 to 65535"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_was_meant(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    assert ("", complaint + "\n") == capsys.readouterr()


def test_a_source_that_is_asked_for_and_missing_is_one_line() -> None:
    ended = gpuledger("node", "--kube=kubeconfig", "--kubeconfig=/nonexistent")

    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("gpuledger node: no kubeconfig at /nonexistent; ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("settings", [NodeSettings, DemoSettings], ids=["node", "demo"])
def test_help_lists_every_flag(settings: type[CommonSettings], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(settings.__name__.removesuffix("Settings").lower(), "--help") == 0

    out = capsys.readouterr().out
    for option in options_of(settings).values():
        assert f"  --{option.flag} " in out
    assert "exit codes: " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: gpuledger {name} ")


def test_nothing_that_only_a_command_needs_is_imported_without_it() -> None:
    foreign = ["pynvml", "grpc", "kubernetes", "psutil", "prometheus_client", "h11", "msgspec", "yaml"]
    program = f"""
import json, sys
from gpuledger.app.cli import main
try:
    main(["--version"])
except SystemExit:
    print(json.dumps(sorted(set({foreign}) & sys.modules.keys())))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )

    assert [] == json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("arguments", [[], ["node", "--help"]], ids=["help", "help-of-a-command"])
def test_a_reader_who_has_gone_is_no_event(arguments: list[str]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-m", "gpuledger", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=buffered,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_an_interrupt_is_told_as_shells_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_arguments: object) -> int:
        raise KeyboardInterrupt

    module = ModuleType("interrupted")
    module.add_arguments = lambda _parser: None  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "interrupted", module)
    monkeypatch.setitem(cli.COMMANDS, "wait", cli.Command("interrupted", "", ""))

    assert exit_code("wait") == 130
