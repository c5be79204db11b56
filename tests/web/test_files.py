"""A file that is none, or has no end, is refused at once: nobody who asks waits for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from fakes.authority import Authority
from gpuledger.app.config import ConfigError
from gpuledger.app.web.files import MAX_FILE_BYTES
from gpuledger.app.web.security import WebSecurity
from web.site import client_tls, get, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = """tls_server_config:
  {cert_file: tls.crt, key_file: tls.key, client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.crt}
"""
FILES = ["web.yml", "tls.crt", "tls.key", "ca.crt"]


@pytest.fixture(scope="module")
def ours() -> Authority:
    return Authority()


@pytest.fixture
def folder(tmp_path: Path, ours: Authority) -> Path:
    """A configuration and everything that it names."""
    ours.issue("127.0.0.1").write(tmp_path, "tls")
    (tmp_path / "ca.crt").write_bytes(ours.certificate)
    (tmp_path / "web.yml").write_text(CONFIG)
    return tmp_path


def put_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)


UNUSABLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "not a regular file; name one"),
    "folder": (lambda path: path.mkdir(), "Is a directory; name a file that can be read"),
    "endless": (lambda path: path.symlink_to("/dev/zero"), "not a regular file; name one"),
    "large": (put_large, "larger than 1 MiB; name the right file"),
    "missing": (lambda _: None, "No such file or directory; name a file that can be read"),
}


@pytest.mark.parametrize(("put", "message"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_a_sensible_size_is_refused_by_name(
    folder: Path, name: str, put: Callable[[Path], None], message: str
) -> None:
    (folder / name).unlink()
    put(folder / name)
    with pytest.raises(ConfigError) as raised:
        WebSecurity(folder / "web.yml")

    assert str(raised.value).endswith(f"{folder / name}: {message}")


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_place_of_a_file_holds_up_nobody(folder: Path, ours: Authority, name: str) -> None:
    with serving(folder / "web.yml") as site:
        (folder / name).unlink()
        os.mkfifo(folder / name)

        assert 200 == get(site, tls=client_tls(ours.certificate)).status


def test_a_mebibyte_is_not_too_much(folder: Path) -> None:
    (folder / "web.yml").write_bytes(CONFIG.encode().ljust(MAX_FILE_BYTES, b"\n"))

    WebSecurity(folder / "web.yml").close()
