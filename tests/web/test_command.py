"""What is wrong with a role's web settings is one line, before anything is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuledger.app.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("role", ["node", "cluster"])
def test_a_file_that_can_not_be_used_is_named(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "web.yml").write_text("basic_auth_user: {}")

    assert 2 == main([role, f"--web.config.file={tmp_path / 'web.yml'}"])
    assert (
        f"gpuledger {role}: --web.config.file {tmp_path / 'web.yml'}: "
        "unknown key basic_auth_user; did you mean basic_auth_users?\n"
    ) == capsys.readouterr().err


@pytest.mark.parametrize("role", ["node", "cluster"])
def test_a_name_that_is_empty_opens_no_door(role: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main([role, "--web.config.file="])
    assert (
        f"gpuledger {role}: --web.config.file: '' can't be used: name a file, or leave it out\n"
    ) == capsys.readouterr().err


def test_tokens_need_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["node", "--kube=off", "--web.kubernetes-auth=true"])
    assert "--kube=off rules out; leave one out" in capsys.readouterr().err


def test_tokens_need_an_api_that_is_configured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert 2 == main(["node", "--web.kubernetes-auth=true"])
    assert "no kubeconfig at" in capsys.readouterr().err
