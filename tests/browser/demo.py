"""The demo as people run it, ready to be looked at."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.daemon import Daemon, until


@contextmanager
def running_demo(folder: Path) -> Iterator[str]:
    """Its URL, once both roles show what they are about; its log lies in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    command = [sys.executable, "-m", "gpuledger", "demo", "--no-browser", f"--port={port}"]
    with Daemon(command, folder / "demo.log") as running:
        url = f"http://{running.address()}"
        until(lambda: "notebook-bob-0" in _read(f"{url}/node/gpu-h100-1/"), 20, running.log)
        until(lambda: "gpu-privileged" in _read(f"{url}/cluster/"), 20, running.log)
        yield url


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as reply:
        page: str = reply.read().decode()
        return page
