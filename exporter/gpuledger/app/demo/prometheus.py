"""A local Prometheus beside the demo, where one is installed; it leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

USUAL_PORT = 9090
STOP_SECONDS = 5.0

MISSING = """\
There is no Prometheus here. Install one (Debian, Ubuntu: apt-get install prometheus), or run `make tools` in a
checkout of gpuledger and start the demo there again.

"""
RUNNING = """\
Prometheus scrapes the demo:

  {url}/query    e.g. sum by (namespace) (gpuledger_container_memory_used_bytes)
  {url}/alerts   {rules}

"""


@contextmanager
def running_prometheus(targets: str) -> Iterator[str]:
    """One that finds what to scrape at the URL `targets`; says where it is, or how to get one."""
    program = _find(Path.cwd())
    if program is None:
        yield MISSING
        return
    rules = sorted((Path.cwd() / "deploy" / "prometheus" / "rules").glob("*.yaml"))
    port = _free_port()
    with (
        tempfile.TemporaryDirectory(prefix="gpuledger-demo-") as folder,
        (Path(folder) / "log").open("wb") as log,
    ):
        config = Path(folder) / "prometheus.json"  # JSON is YAML
        config.write_text(json.dumps(_config(targets, rules)))
        command = [
            str(program),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        # In a session of its own, so that Ctrl-C ends it when the demo does and not before.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - nothing of it comes from outside
        loaded = f"{len(rules)} files of rules" if rules else "no rules: start the demo in a checkout for them"
        try:
            yield RUNNING.format(url=f"http://127.0.0.1:{port}", rules=loaded)
        finally:
            _end(process)


def _find(folder: Path) -> Path | None:
    """The Prometheus on PATH, else the newest that `make tools` has brought."""
    installed = shutil.which("prometheus")
    brought = sorted((folder / ".cache" / "tools").glob("prometheus-*/usr/bin/prometheus"))
    return Path(installed) if installed else next(reversed(brought), None)


def _config(targets: str, rules: Sequence[Path]) -> dict[str, object]:
    scrape = {
        "job_name": "gpuledger",
        "honor_labels": True,
        "http_sd_configs": [{"url": targets, "refresh_interval": "2s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": "demo"}],
    }
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "5s"},
        "rule_files": [str(rule) for rule in rules],
        "scrape_configs": [scrape],
    }


def _free_port() -> int:
    """Prometheus' usual port, or another where that is taken."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise OSError("no port is free on 127.0.0.1")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
