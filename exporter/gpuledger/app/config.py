"""Settings, declared once: each is a flag, a `GPULEDGER_*` variable and a key of the YAML file alike.

A flag beats the environment, which beats the file, which beats the default. What is unknown or malformed is
a `ConfigError` of one line that names the nearest known name; nothing is ignored silently.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from gpuledger.core.sharding import Shard

ENV_PREFIX = "GPULEDGER_"
MAX_PORT = 65535

MAX_SECONDS = 30 * 86400.0
"""Longer than anything that is waited for here, and within what the system can wait."""

_SERVICE_LINK = re.compile(r"(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)$")
"""Variables that the kubelet injects for a Service called gpuledger… (enableServiceLinks)."""

SettingsT = TypeVar("SettingsT")


class ConfigError(Exception):
    """A setting that can't be used; the message is one line and says what to do. Exit code 2."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is written: its flag (which is its key in the file too), its parser and its help."""

    flag: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str | None

    @property
    def variable(self) -> str:
        """The environment variable that means the same."""
        return ENV_PREFIX + re.sub(r"[.-]", "_", self.flag).upper()


def option(
    flag: str, default: str | None, text: str, *, parse: Callable[[str], Any] = str, metavar: str = ""
) -> Any:
    """Declare a field of a settings dataclass; `default` is written as users would, None stays."""
    declared = Option(flag, parse, metavar or flag.rsplit(".", 1)[-1].upper(), text, default)
    return field(
        default_factory=lambda: None if default is None else parse(default), metadata={"option": declared}
    )


def duration(text: str) -> float:
    """Seconds from a duration as Prometheus writes it: `200ms`, `1s`, `1m30s`, `2h`."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("write a duration such as 200ms, 1s, 1m30s or 2h")
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    if seconds > MAX_SECONDS:
        raise ValueError("write a duration of at most 30d")
    return seconds


def positive_duration(text: str) -> float:
    """A duration of more than no time."""
    seconds = duration(text)
    if seconds <= 0:
        raise ValueError("write a duration greater than 0, such as 1s")
    return seconds


def boolean(text: str) -> bool:
    """`true` or `false`, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def choice(*allowed: str) -> Callable[[str], str]:
    """One of the words allowed."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"write one of {', '.join(allowed)}")
        return text

    return parse


def positive_integer(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("write a whole number, 1 or more")
    return int(text)


def file_path(text: str) -> Path:
    """A path; an empty one is a variable that was meant to be set."""
    if not text:
        raise ValueError("name a file, or leave it out")
    return Path(text)


def pattern(text: str) -> re.Pattern[str] | None:
    """A regular expression, or None where nothing is said."""
    try:
        return re.compile(text) if text else None
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"write a regular expression: {error}") from error


def shard(text: str) -> Shard:
    """`1/3`, or `gpuledger-cluster-1/3`: a StatefulSet's pod is named after its ordinal."""
    match = re.fullmatch(r"(?:.*-)?(?P<index>\d+)/(?P<count>\d+)", text)
    if match is None or not int(match["index"]) < int(match["count"]):
        raise ValueError("write INDEX/COUNT, such as 0/3, 1/3 or 2/3")
    return Shard(int(match["index"]), int(match["count"]))


def port_number(text: str) -> int:
    """A TCP port from 1 on."""
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PORT:
        raise ValueError(f"write a port, 1 to {MAX_PORT}")
    return int(text)


def listen_address(text: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port` or `:port` (all interfaces); port 0 picks a free one."""
    host, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or int(number) > MAX_PORT:
        raise ValueError("write HOST:PORT or :PORT, such as 127.0.0.1:9440 or :9440")
    return host.removeprefix("[").removesuffix("]"), int(number)


def options_of(settings: type[Any]) -> dict[str, Option]:
    """The options of a settings class, by field."""
    return {f.name: f.metadata["option"] for f in fields(settings)}


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that points to `--help` and name the nearest flag."""

    def error(self, message: str) -> NoReturn:
        """Report a mistake on the command line; exit code 2."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is unknown where it is known what may have been meant: not in the parent of a command."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flag = unknown[0].split("=", 1)[0]
            self.error(f"unknown argument {flag}{nearest(flag, list(self._option_string_actions))}")
        return parsed, unknown


def add_options(parser: argparse.ArgumentParser, settings: type[Any]) -> None:
    """Add a flag for every setting; those not given stay None, so that the layers below show through."""
    for name, declared in options_of(settings).items():
        default = f"Default: {declared.default}. " if declared.default else ""
        parser.add_argument(
            f"--{declared.flag}",
            dest=name,
            metavar=declared.metavar,
            help=f"{declared.help} {default}[{declared.variable}]".replace("%", "%%"),
        )


def resolve(settings: type[SettingsT], flags: argparse.Namespace, environ: Mapping[str, str]) -> SettingsT:
    """The settings from all layers. Raises ConfigError."""
    options = options_of(settings)
    given = {name: ("--" + o.flag, getattr(flags, name)) for name, o in options.items()}
    variables = _environment(options, environ)
    path = given["config_file"][1] or variables.get("config_file", ("", ""))[1]
    layers: Sequence[Mapping[str, tuple[str, str | None]]] = (
        given,
        variables,
        read_config_file(Path(path), options) if path else {},
    )
    values: dict[str, Any] = {}
    for name, declared in options.items():
        for layer in layers:
            where, text = layer.get(name, ("", None))
            if text is not None:
                values[name] = _parsed(declared, where, text)
                break
    return settings(**values)


def read_config_file(path: Path, options: Mapping[str, Option]) -> dict[str, tuple[str, str | None]]:
    """The YAML file's settings: keys are the flags' names, nested at their dots or not."""
    import yaml  # noqa: PLC0415 - most runs read no file

    try:
        # A BaseLoader builds nothing but text, and so takes `off` for what it is here: a word.
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)  # noqa: S506 - see above
    except OSError as error:
        raise ConfigError(f"--config.file {path}: {error.strerror}; name a file that can be read") from error
    except RecursionError as error:
        raise ConfigError(f"--config.file {path}: not settings: nested without end") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"--config.file {path}: not YAML: {reason}") from error
    if not document:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"--config.file {path}: write a mapping of settings, such as `interval: 1s`")
    by_flag = {declared.flag: name for name, declared in options.items() if name != "config_file"}
    settings: dict[str, tuple[str, str | None]] = {}
    for key, value in _flatten(document).items():
        if key not in by_flag:
            raise ConfigError(f"--config.file {path}: unknown key {key}{nearest(key, list(by_flag))}")
        if not isinstance(value, str):
            raise ConfigError(f"--config.file {path}: {key} takes one value, not a list")
        if "\0" in value:
            raise ConfigError(f"--config.file {path}: {key} holds a zero byte, which no setting can")
        settings[by_flag[key]] = (f"{key} in {path}", value)
    return settings


def _environment(
    options: Mapping[str, Option], environ: Mapping[str, str]
) -> dict[str, tuple[str, str | None]]:
    by_variable = {declared.variable: name for name, declared in options.items()}
    settings: dict[str, tuple[str, str | None]] = {}
    for variable, value in environ.items():
        if _SERVICE_LINK.search(variable) and "://" in value:
            continue  # GPULEDGER_PORT=tcp://… is never ours, though `demo` has a --port
        if variable in by_variable:
            settings[by_variable[variable]] = (variable, value)
        elif variable.startswith(ENV_PREFIX) and not _SERVICE_LINK.search(variable):
            raise ConfigError(f"unknown variable {variable}{nearest(variable, list(by_variable))}")
    return settings


def _parsed(declared: Option, where: str, text: str) -> Any:
    try:
        return declared.parse(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} can't be used: {error}") from error


def _flatten(document: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean …?` where a known name is near, else nothing."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
