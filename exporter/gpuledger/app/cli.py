"""The command line: one program, its commands, and the exit codes that scripts rely on."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from gpuledger import __version__
from gpuledger.app.config import ConfigError, OneLineParser, nearest
from gpuledger.app.stderr import discard_stderr, write_stderr
from gpuledger.core.errors import SourceError
from gpuledger.core.text import printable

EXIT_FAILURE = 1
EXIT_USAGE = 2


SERVICE_EPILOG = """\
Every flag may also be given as an environment variable (--web.listen-address is
GPULEDGER_WEB_LISTEN_ADDRESS) or as a key of the YAML file named by --config.file.
A flag beats the environment, which beats the file.

exit codes: 0 done, 1 failure, 2 wrong usage or configuration
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its module has `add_arguments(parser)` and `run(arguments) -> exit code`.

    Modules are imported when their command is run: `audit` needs no NVML, and `node` no YAML of manifests.
    """

    module: str
    summary: str
    description: str
    epilog: str = SERVICE_EPILOG


COMMANDS = {
    "node": Command(
        "gpuledger.app.node.command",
        "export one node's GPUs, and who uses them",
        "Run on every GPU node, as a DaemonSet with hostPID: true. Reads the GPUs, finds the pod behind each "
        "process, and serves /metrics, a page for people at /, /healthz and /readyz.",
    ),
    "cluster": Command(
        "gpuledger.app.cluster.command",
        "export what the cluster has, who waits for GPUs, and which pods break the rules",
        "Run once for a cluster, or for each shard of it, or on a laptop with a kubeconfig. Watches pods, "
        "nodes, quotas and device claims, audits every pod that can reach a GPU, and serves /metrics.",
    ),
    "audit": Command(
        "gpuledger.app.audit.command",
        "list what makes GPU pods dangerous to the host they share, from a dump or a cluster",
        "Read `kubectl get … -o json` dumps, manifests or a live cluster, and list the pods that reach a GPU "
        "without asking, or that break the rules which keep a shared host safe.",
        "exit codes: 0 clean, 1 findings, 2 something could not be read, or wrong usage\n",
    ),
    "demo": Command(
        "gpuledger.app.demo.command",
        "see it work on a simulated cluster, without GPU or Kubernetes",
        "Serve both roles over a simulated cluster, in which pods come and go and a day takes 8 minutes.",
    ),
}


def build_parser(chosen: str | None) -> OneLineParser:
    """The parser; only the chosen command's flags are added, so that only its module is imported."""
    parser = OneLineParser(
        prog="gpuledger",
        description="Keeps the books of every GPU in a Kubernetes cluster.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gpuledger {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=OneLineParser)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.summary,
            description=textwrap.fill(command.description, 90),
            epilog=command.epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            importlib.import_module(command.module).add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named on the command line; the return value is the exit code."""
    if sys.stderr is None:  # as it is where the shell closed it
        discard_stderr()
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            write_stderr("")  # what could not be written yet would change the exit code as Python ends
            if sys.stdout is not None:  # as it is where the shell closed it
                sys.stdout.flush()  # here, where it can still be dealt with that nobody reads on
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's own last flush
        return EXIT_FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(arguments: list[str]) -> int:
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = build_parser(chosen)
    if not arguments:
        parser.print_help()
        return EXIT_USAGE
    if chosen is not None and chosen not in COMMANDS:
        parser.error(f"unknown command {chosen}{nearest(chosen, list(COMMANDS))}")
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.error("name a command")
    try:
        return int(importlib.import_module(COMMANDS[parsed.command].module).run(parsed))
    except (ConfigError, SourceError) as error:
        message = str(error)
    except Exception as error:
        if parsed.command != "audit" or isinstance(error, BrokenPipeError):
            raise
        # A traceback ends in 1, which means findings: what the audit did not foresee must not pass for them.
        message = f"unexpected {type(error).__name__}: {error}"
    write_stderr(f"gpuledger {parsed.command}: {printable(' '.join(message.split()))}\n")
    return EXIT_USAGE
