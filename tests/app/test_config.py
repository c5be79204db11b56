"""One setting, three ways to say it; what can't be used is one line that says what to do."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from gpuledger.app.config import (
    ConfigError,
    OneLineParser,
    add_options,
    boolean,
    duration,
    listen_address,
    options_of,
    pattern,
    port_number,
    resolve,
)
from gpuledger.app.settings import DemoSettings, NodeSettings


def settings(
    *flags: str, environ: dict[str, str] | None = None, file: str | None = None, folder: Path | None = None
) -> NodeSettings:
    parser = OneLineParser(prog="gpuledger node", allow_abbrev=False)
    add_options(parser, NodeSettings)
    if file is not None and folder is not None:
        path = folder / "gpuledger.yaml"
        path.write_text(file, encoding="utf-8")
        flags = (*flags, f"--config.file={path}")
    return resolve(NodeSettings, parser.parse_args(flags), environ or {})


def test_every_setting_has_a_default_flag_variable_and_help() -> None:
    assert settings() == NodeSettings()
    for name, option in options_of(NodeSettings).items():
        assert option.help.endswith("."), name
        assert option.variable.startswith("GPULEDGER_"), name
    assert len({option.flag for option in options_of(NodeSettings).values()}) == len(fields(NodeSettings))


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path: Path) -> None:
    file, environ = "interval: 4s", {"GPULEDGER_INTERVAL": "3s"}

    assert settings().interval == 1.0
    assert settings(file=file, folder=tmp_path).interval == 4.0
    assert settings(file=file, folder=tmp_path, environ=environ).interval == 3.0
    assert settings("--interval=2s", file=file, folder=tmp_path, environ=environ).interval == 2.0


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("node-name: from-file", encoding="utf-8")

    assert settings(environ={"GPULEDGER_CONFIG_FILE": str(path)}).node_name == "from-file"


@pytest.mark.parametrize(
    "text", ["path.procfs: /host/proc", "path: {procfs: /host/proc}"], ids=["dotted", "nested"]
)
def test_keys_may_be_nested_at_their_dots(text: str, tmp_path: Path) -> None:
    assert settings(file=text, folder=tmp_path).path_procfs == Path("/host/proc")


def test_yaml_scalars_are_taken_as_written(tmp_path: Path) -> None:
    loaded = settings(file="process-metrics: false\nseries-limit: 5\nkube: off\n", folder=tmp_path)

    assert (False, 5, "off") == (loaded.process_metrics, loaded.series_limit, loaded.kube)


@pytest.mark.parametrize("text", ["", "# nothing yet\n"], ids=["empty", "comment"])
def test_an_empty_file_sets_nothing(text: str, tmp_path: Path) -> None:
    assert settings(file=text, folder=tmp_path).interval == 1.0


def test_service_links_that_the_kubelet_injects_are_no_settings() -> None:
    links = {
        "GPULEDGER_SERVICE_HOST": "10.0.0.1",
        "GPULEDGER_SERVICE_PORT_METRICS": "9440",
        "GPULEDGER_PORT": "tcp://10.0.0.1:9440",
        "GPULEDGER_PORT_9440_TCP_ADDR": "10.0.0.1",
        "GPULEDGER_NODE_SERVICE_HOST": "10.0.0.2",
    }

    assert settings(environ=links) == NodeSettings()


@pytest.mark.parametrize(
    ("flags", "environ", "file", "message"),
    [
        pytest.param(
            ["--interval=fast"], {}, None, "--interval: 'fast' can't be used: write a duration", id="flag"
        ),
        pytest.param(["--interval=0s"], {}, None, "greater than 0", id="zero-interval"),
        pytest.param(["--interval=200000d"], {}, None, "at most 30d", id="endless-interval"),
        pytest.param([], {}, "[" * 100_000, "exceeded maximum nesting depth", id="endless-nesting"),
        pytest.param([], {"GPULEDGER_INTERVAL": "-1s"}, None, "GPULEDGER_INTERVAL: '-1s'", id="variable"),
        pytest.param([], {"GPULEDGER_INTERVALL": "1s"}, None, "mean GPULEDGER_INTERVAL?", id="typo-variable"),
        pytest.param([], {}, "intervall: 1s", "unknown key intervall; did you mean interval?", id="typo-key"),
        pytest.param([], {}, "path: {procs: /p}", "path.procs; did you mean path.procfs?", id="nested-typo"),
        pytest.param([], {}, "interval: fast", "interval in ", id="value-in-file"),
        pytest.param([], {}, "interval: [1s]", "takes one value", id="list-in-file"),
        pytest.param([], {}, "- interval", "write a mapping", id="no-mapping"),
        pytest.param([], {}, 'path.procfs: "/a\\0"', "path.procfs holds a zero byte", id="zero-byte"),
        pytest.param([], {}, "a: b: c", "not YAML", id="no-yaml"),
        pytest.param([], {}, "config.file: x.yaml", "unknown key config.file", id="file-in-file"),
        pytest.param(["--config.file=/nonexistent.yaml"], {}, None, "No such file", id="missing-file"),
        pytest.param(["--kube=maybe"], {}, None, "write one of auto, off", id="choice"),
        pytest.param(["--web.listen-address=9440"], {}, None, "write HOST:PORT or :PORT", id="address"),
        pytest.param(["--series-limit=0"], {}, None, "1 or more", id="limit"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    flags: list[str], environ: dict[str, str], file: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(*flags, environ=environ, file=file, folder=tmp_path)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["(", "a{99999999999}", "(" * 10_000])
def test_what_is_no_pattern_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="write a regular expression"):
        pattern(text)


def test_a_binary_file_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match="not YAML"):
        settings(f"--config.file={path}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("1s", 1.0), ("1m30s", 90.0), ("2h", 7200.0), ("0s", 0.0), ("1.5s", 1.5)],
)
def test_durations_are_written_as_in_prometheus(text: str, seconds: float) -> None:
    assert pytest.approx(seconds) == duration(text)


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1s!", "-1s", "1s2", "1d1x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [(":9440", ("", 9440)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9440", ("::1", 9440))],
)
def test_listen_addresses(text: str, address: tuple[str, int]) -> None:
    assert address == listen_address(text)


@pytest.mark.parametrize("text", ["", "9440", "host:", "host:port", ":70000", ":-1"])
def test_what_is_no_listen_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT"):
        listen_address(text)


def test_ports_are_numbers() -> None:
    assert [1, 9440, 65535] == [port_number(text) for text in ("1", "9440", "65535")]


@pytest.mark.parametrize("text", ["", "0", "-1", "65536", "http"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a port"):
        port_number(text)


def test_booleans_are_words() -> None:
    assert (True, False) == (boolean("True"), boolean("false"))
    with pytest.raises(ValueError, match="true or false"):
        boolean("yes")


def test_help_names_default_and_variable() -> None:
    parser = OneLineParser(prog="gpuledger node", allow_abbrev=False)
    add_options(parser, NodeSettings)

    text = " ".join(parser.format_help().split())

    for option in options_of(NodeSettings).values():
        assert f"--{option.flag}" in text
        assert option.variable in text


def test_unknown_flags_end_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OneLineParser(prog="gpuledger node", allow_abbrev=False)
    add_options(parser, NodeSettings)

    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--intervall=1s"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "gpuledger node: unknown argument --intervall; did you mean --interval?; see `gpuledger node --help`\n"
    )


def test_an_empty_namespace_resolves_to_the_defaults() -> None:
    given = argparse.Namespace(**{f.name: None for f in fields(NodeSettings)})

    assert NodeSettings() == resolve(NodeSettings, given, {})


def test_a_service_link_does_not_pass_for_the_port_of_the_demo() -> None:
    given = argparse.Namespace(**{f.name: None for f in fields(DemoSettings)})

    assert DemoSettings() == resolve(DemoSettings, given, {"GPULEDGER_PORT": "tcp://10.0.0.1:9440"})
