"""Runs `gpuledger audit` in this process."""

from gpuledger.app.cli import main


def gpuledger_audit(*arguments: str) -> int:
    """The exit code of the command; what it writes is the test's to capture."""
    return main(["audit", *arguments])
