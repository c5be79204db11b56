"""The compose file, as far as it can be checked without Docker: mounts exist, images are pinned, names fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuledger.app.settings import DemoSettings

FOLDER = Path(__file__).parents[2] / "deploy" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
BINDS = [
    (name, *mount.split(":"))
    for name, service in SERVICES.items()
    for mount in service.get("volumes", ())
    if mount.startswith(".")
]


def read(*parts: str) -> Any:
    return yaml.safe_load(FOLDER.joinpath(*parts).read_text())


@pytest.mark.parametrize(("service", "source", "target", "mode"), BINDS, ids=str)
def test_what_is_mounted_exists_and_is_mounted_to_be_read(
    service: str, source: str, target: str, mode: str
) -> None:
    assert (FOLDER / source).exists(), service
    assert target.startswith("/")
    assert "ro" == mode


def test_volumes_that_are_used_are_declared() -> None:
    named = {
        mount.split(":")[0]
        for service in SERVICES.values()
        for mount in service.get("volumes", ())
        if not mount.startswith(".")
    }
    assert named == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_hardened_and_on_loopback(name: str) -> None:
    service = SERVICES[name]
    image = (
        service.get("image")
        or re.findall(r"^FROM (.+)$", service["build"]["dockerfile_inline"], re.MULTILINE)[0]
    )

    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+[\w.-]*", image)
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert {"read_only": True, "cap_drop": ["ALL"]}.items() <= service.items()
    assert set(service.get("depends_on", ())) <= SERVICES.keys()


def test_what_the_demos_image_copies_exists() -> None:
    build = SERVICES["demo"]["build"]
    context = FOLDER / build["context"]
    for line in re.findall(r"^COPY (.+) \S+$", build["dockerfile_inline"], re.MULTILINE):
        for source in line.split():
            assert (context / source).exists(), source


def test_services_find_one_another() -> None:
    prometheus, (source,) = (
        read("prometheus.yaml"),
        read("grafana", "datasources", "prometheus.yaml")["datasources"],
    )
    (found,) = prometheus["scrape_configs"][0]["http_sd_configs"]
    (alertmanager,) = prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]

    assert f"http://demo:{DemoSettings().port}/targets" == found["url"]
    for address in (found["url"], source["url"], f"http://{alertmanager}"):
        host, port = re.fullmatch(r"http://(\w+):(\d+)(?:/\w+)?", address).groups()  # type: ignore[union-attr] # one that is none fails here
        assert [f"127.0.0.1:{port}:{port}"] == SERVICES[host]["ports"]


def test_rules_and_dashboards_lie_where_they_are_looked_for() -> None:
    targets = {target: FOLDER / source for _, source, target, _ in BINDS}
    (rules,) = (Path(pattern) for pattern in read("prometheus.yaml")["rule_files"])
    (provider,) = read("grafana", "dashboards", "gpuledger.yaml")["providers"]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])

    assert list(targets[str(rules.parent)].glob(rules.name))
    assert list(targets[provider["options"]["path"]].glob("*.json"))
    assert (targets[str(home.parent)] / home.name).is_file()
