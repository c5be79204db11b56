"""Starts the program as a workload of the chart says, up to the address that it listens on."""

from __future__ import annotations

import contextlib
import io
import socket
from typing import TYPE_CHECKING, Any

from fakes.certificates import make_certificate
from gpuledger.app.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MOUNTED = "/etc/gpuledger"
"""Where the chart mounts what the program reads of its own."""


class Host:
    """A place with the Secrets that the chart does not make: of certificates, and of web configurations."""

    def __init__(self, folder: Path, certificates: Sequence[str], web_configs: Sequence[str]) -> None:
        self._folder = folder
        certificate, key = make_certificate(folder)
        pair = {path.name: path.read_text() for path in (certificate, key)}
        pair["ca.crt"] = pair["tls.crt"]
        self._secrets = dict.fromkeys(certificates, pair)
        self._secrets |= {name: {"web-config.yml": "{}"} for name in web_configs}

    def complaint(self, workload: dict[str, Any], objects: Iterable[dict[str, Any]]) -> str:
        """What the program says against its arguments and files; empty where it goes on to listen."""
        spec = workload["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        self._mount(spec, container, objects)
        arguments = [
            each.replace("$(POD_NAME)", "gpuledger-cluster-1").replace(MOUNTED, str(self._folder))
            for each in container["args"]
        ]
        with socket.create_server(("127.0.0.1", 0)) as taken, contextlib.redirect_stderr(io.StringIO()) as said:
            code = main([*arguments, f"--web.listen-address=127.0.0.1:{taken.getsockname()[1]}"])
        return "" if code == 1 else said.getvalue() or f"exit code {code}"

    def _mount(
        self, spec: dict[str, Any], container: dict[str, Any], objects: Iterable[dict[str, Any]]
    ) -> None:
        """Lay out the files of ConfigMaps and Secrets as the container would see them."""
        files: dict[str, dict[str, str]] = {
            each["metadata"]["name"]: each["data" if each["kind"] == "ConfigMap" else "stringData"]
            for each in objects
            if each["kind"] in ("ConfigMap", "Secret")
        }
        files |= self._secrets
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            name = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
            for file, text in (files[name] if name else {}).items():
                path = self._folder / mount["mountPath"].removeprefix(f"{MOUNTED}/") / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
