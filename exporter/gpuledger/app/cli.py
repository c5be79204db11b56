"""The command line: one program, its commands, and the exit codes that scripts rely on."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from gpuledger import __version__
from gpuledger.app.config import ConfigError, OneLineParser
from gpuledger.core.errors import SourceError

EXIT_FAILURE = 1
EXIT_USAGE = 2


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its module has `add_arguments(parser)` and `run(arguments) -> exit code`.

    Modules are imported when their command is run: `audit` needs no NVML, and `node` no YAML of manifests.
    """

    module: str
    summary: str
    description: str


COMMANDS = {
    "node": Command(
        "gpuledger.app.node",
        "export one node's GPUs, and who uses them",
        "Run on every GPU node, as a DaemonSet with hostPID: true. Reads the GPUs, finds the pod behind each "
        "process, and serves /metrics, a page for people at /, /healthz and /readyz.",
    ),
    "cluster": Command(
        "gpuledger.app.cluster",
        "export what the cluster has, who waits for GPUs, and which pods break the rules",
        "Run once for a cluster, or for each shard of it, or on a laptop with a kubeconfig. Watches pods, "
        "nodes, quotas and device claims, audits every pod that can reach a GPU, and serves /metrics.",
    ),
    "demo": Command(
        "gpuledger.app.demo",
        "see it work on a simulated node, without GPU or cluster",
        "Serve the node role over simulated GPUs and pods that come and go.",
    ),
}

EPILOG = """\
Every flag may also be given as an environment variable (--web.listen-address is
GPULEDGER_WEB_LISTEN_ADDRESS) or as a key of the YAML file named by --config.file.
A flag beats the environment, which beats the file.

exit codes: 0 done, 1 failure or (audit) findings, 2 wrong usage or configuration
"""


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
            epilog=EPILOG,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            importlib.import_module(command.module).add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named on the command line; the return value is the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = build_parser(chosen)
    if not arguments:
        parser.print_help()
        return EXIT_USAGE
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.error("name a command")
    try:
        return int(importlib.import_module(COMMANDS[parsed.command].module).run(parsed))
    except (ConfigError, SourceError) as error:
        sys.stderr.write(f"gpuledger {parsed.command}: {error}\n")
        return EXIT_USAGE
    except BrokenPipeError:
        sys.stderr.close()  # or the interpreter complains about the pipe that nobody reads
        return EXIT_FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
