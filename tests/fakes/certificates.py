"""A certificate for servers on loopback, made on the spot."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, which is its own authority, and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-days", "2", "-subj", "/CN=loopback", "-keyout", str(key), "-out", str(certificate)),
        *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return certificate, key
