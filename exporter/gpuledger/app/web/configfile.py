"""The web configuration, re-read whenever somebody connects or asks; what can't be used changes nothing."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from gpuledger.app.config import ConfigError
from gpuledger.app.web.files import read_file
from gpuledger.app.web.tls import Pem, Tls, make_tls, read_pem
from gpuledger.app.web.webconfig import WebConfig, parse_web_config

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that is good, and what it was made of."""

    text: bytes
    pem: Pem | None
    config: WebConfig
    tls: Tls | None


class WebConfigFile:
    """A configuration file with the certificates that it names.

    Their contents are compared and not their times, because a mounted Secret is a link that is swapped. A swap
    that is caught half way makes no pair of certificate and key, and so changes nothing until the next look.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError: at the start there is no older one to fall back on."""
        self._path = path
        self._problem = ""
        try:
            self._adopt(self._read(None))
        except ConfigError as error:
            raise ConfigError(f"--web.config.file {path}: {error}") from error

    @property
    def healthy(self) -> bool:
        """Whether what the files say now is what is in force."""
        return not self._problem

    @property
    def not_after(self) -> float | None:
        """Unix time at which the certificate in force expires; None without one."""
        return self.loaded.tls.not_after if self.loaded.tls is not None else None

    def refresh(self) -> Loaded:
        """What is in force, after a look at the files; `loaded` is the same without it."""
        try:
            fresh = self._read(self.loaded)
        except ConfigError as error:
            if str(error) != self._problem:
                log.error("--web.config.file %s: %s; what was before stays in force", self._path, error)  # noqa: TRY400 - a traceback says no more
            self._problem = str(error)
            return self.loaded
        if fresh is not self.loaded or self._problem:
            log.info("--web.config.file %s: in force as it is now", self._path)
        if fresh is not self.loaded:
            self._adopt(fresh)
        self._problem = ""
        return fresh

    def _adopt(self, fresh: Loaded) -> None:
        """Put it in force, with a certificate that has expired too: it may be all that there is."""
        self.loaded, self.loaded_at = fresh, time.time()
        if self.not_after is not None and self.not_after < self.loaded_at:
            log.warning("--web.config.file %s: the certificate has expired; clients refuse it", self._path)

    def _read(self, old: Loaded | None) -> Loaded:
        """What the files say: `old` itself where that is the same."""
        text = read_file(self._path)
        if not text.strip():  # as a file is while it is written, which must not open the door
            raise ConfigError("the file is empty; write {} to switch everything off")
        config = old.config if old is not None and old.text == text else parse_web_config(text)
        server = config.tls_server_config
        pem = read_pem(server, self._path.parent) if server is not None else None
        if old is not None and (old.text, old.pem) == (text, pem):
            return old
        tls = make_tls(server, pem) if server is not None and pem is not None else None
        return Loaded(text, pem, config, tls)
