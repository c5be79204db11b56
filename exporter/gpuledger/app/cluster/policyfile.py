"""The policy of exceptions, read again whenever its file says something else."""

from __future__ import annotations

from pathlib import Path

from gpuledger.audit.checks import CHECKS
from gpuledger.audit.policy import Policy, PolicyError, parse_policy
from gpuledger.core.errors import SourceError


class PolicyFile:
    """A policy file. Its text is compared and not its times: a mounted ConfigMap is a link that is swapped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text: str | None = None
        self._policy = Policy()

    def read(self) -> Policy:
        """The policy; the same object as long as the text is the same. Raises SourceError."""
        try:
            text = self._path.read_text(encoding="utf-8")
            if text != self._text:
                self._policy = parse_policy(text, CHECKS)
                self._text = text
        except OSError as error:
            raise SourceError(f"policy {self._path}: {error.strerror}; name a file that can be read") from error
        except UnicodeDecodeError as error:
            raise SourceError(f"policy {self._path}: not UTF-8") from error
        except PolicyError as error:
            raise SourceError(f"policy {self._path}: {error}") from error
        return self._policy
