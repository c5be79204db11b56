"""docs/checks.md, made from the checks' own declarations: `python -m gpuledger.audit.docs > docs/checks.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpuledger.audit.check import Check
from gpuledger.audit.checks import CHECKS

_HEAD = """\
# Checks

<!-- Made by `python -m gpuledger.audit.docs`; edit the checks instead. -->

`gpuledger audit` makes these checks on pods and pod templates, for containers, init containers, sidecars and
ephemeral containers alike. The severity is the worst that a check gives by itself; what the dump tells about
the cluster can raise or lower it. The ids are the same in every format, in exceptions, in metrics and in
runbooks.

"""


def render_checks() -> Iterator[str]:
    """The page in pieces: an index, then a section for each check."""
    yield _HEAD
    yield "| check | severity | title |\n|---|---|---|\n"
    for check in CHECKS.values():
        yield f"| [{check.id}](#{check.id}) | {check.severity} | {check.title} |\n"
    for check in CHECKS.values():
        yield from _section(check)


def _section(check: Check) -> Iterator[str]:
    title = check.title[0].upper() + check.title[1:]
    yield f"\n## {check.id}\n\n{title}. Severity: {check.severity}.{_notes(check)}\n\n"
    yield f"- **Flags:** {check.flags}\n- **Why:** {check.why}\n- **What to do:** {check.remediation}\n"
    yield f"- **References:** {', '.join(f'<{reference}>' for reference in check.references)}\n"


def _notes(check: Check) -> str:
    notes = []
    if check.at_runtime:
        notes.append("Found by the node role while pods run, never in a dump.")
    if check.opt_in:
        notes.append(f"Runs only when it is named: `--check {check.id}`.")
    if check.covered_by:
        notes.append(f"Silent where {' or '.join(check.covered_by)} flags the same place.")
    if check.expected:
        notes.append("The GPU stack's own pods are exempt, and counted as such.")
    return "".join(f" {note}" for note in notes)


if __name__ == "__main__":
    sys.stdout.writelines(render_checks())
