"""`gpuledger node` explains itself, and refuses what it can't use in one line that says what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
        env={**os.environ, **variables, "COLUMNS": "200"},
    )


def test_help_explains_every_flag() -> None:
    done = run("node", "--help")
    assert done.returncode == 0
    usage, options = done.stdout.split("options:")
    explained = dict(re.findall(r"^  --([a-z.-]+) [A-Z]+\s+(.+)$", options, re.MULTILINE))
    assert {"web.listen-address", "interval", "retention", "kube", "path.procfs"} <= explained.keys()
    assert explained.keys() == set(re.findall(r"\[--([a-z.-]+)", usage))
    for name, text in explained.items():
        variable = "GPULEDGER_" + re.sub(r"[.-]", "_", name).upper()
        assert re.fullmatch(rf"[A-Z].+\. \[{variable}\]", text)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        pytest.param(("node", "--intervall=1s"), "did you mean --interval?", id="unknown flag"),
        pytest.param(("node", "--interval=fast"), "such as 200ms, 1s", id="bad interval"),
        pytest.param(("node", "--interval=0s"), "greater than 0", id="no interval"),
        pytest.param(
            ("node", "--web.listen-address=9440"), "such as 127.0.0.1:9440 or :9440", id="bad address"
        ),
        pytest.param(("node", "--kube=maybe"), "auto, off, in-cluster, kubeconfig", id="bad choice"),
        pytest.param(("node", "--config.file=/nowhere.yaml"), "name a file that can be read", id="no file"),
        pytest.param(
            ("node", "--kube=kubeconfig", "--kubeconfig=/nowhere"), "--kubeconfig", id="no kubeconfig"
        ),
        pytest.param(("nod",), "node", id="unknown command"),
    ],
)
def test_wrong_usage_is_said_in_one_line(arguments: tuple[str, ...], advice: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert advice in done.stderr


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        pytest.param("intervall: 1s", "did you mean interval?", id="unknown key"),
        pytest.param("interval: fast", "such as 200ms, 1s", id="bad value"),
        pytest.param("interval: [1s", "not YAML", id="no YAML"),
        pytest.param("- interval", "write a mapping", id="no mapping"),
    ],
)
def test_a_wrong_configuration_file_is_said_in_one_line(tmp_path: Path, text: str, advice: str) -> None:
    file = tmp_path / "gpuledger.yaml"
    file.write_text(text)
    done = run("node", f"--config.file={file}")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(file) in done.stderr
    assert advice in done.stderr


def test_an_unknown_variable_is_said_in_one_line() -> None:
    done = run("node", GPULEDGER_INTERVALL="1s")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "did you mean GPULEDGER_INTERVAL?" in done.stderr
