"""What a web configuration is read from: files that anybody may put there, on the loop that serves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuledger.app.config import ConfigError

MAX_FILE_BYTES = 1024 * 1024
"""As much as a Kubernetes Secret may hold: https://kubernetes.io/docs/concepts/configuration/secret/."""


def read_file(path: Path) -> bytes:
    """The content of a regular file; raises ConfigError, at once where another would wait for a writer."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError("not a regular file; name one")
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{error.strerror}; name a file that can be read") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError("larger than 1 MiB; name the right file")
    return content


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
