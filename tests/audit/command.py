"""Runs `gpuledger audit` in this process."""

import sys

from gpuledger.app import audit
from gpuledger.app.cli import EXIT_USAGE
from gpuledger.app.config import ConfigError, OneLineParser
from gpuledger.core.errors import SourceError


def gpuledger_audit(*arguments: str) -> int:
    """The exit code of the command; what it writes is the test's to capture."""
    parser = OneLineParser(prog="gpuledger audit", allow_abbrev=False)
    audit.add_arguments(parser)
    try:
        return audit.run(parser.parse_args(arguments))
    except (ConfigError, SourceError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
