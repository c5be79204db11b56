"""The one error that crosses layers: an outside thing could not be read."""

from __future__ import annotations


class SourceError(Exception):
    """An outside thing gave no answer; the message says what failed and what to do, in one line.

    `restart` marks what only a restart of this process cures (NVML's "Unknown Error" after a
    `systemctl daemon-reload`), so that `/healthz` fails and the kubelet restarts the container.
    """

    def __init__(self, message: str, *, restart: bool = False) -> None:
        super().__init__(message)
        self.restart = restart
