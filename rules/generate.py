# ruff: noqa: INP001 - a program beside its data, no package
"""Fills in the rules what derives from elsewhere, and writes what derives from the rules.

`python rules/generate.py` writes; with --check it only compares, and fails where a file differs.

Filled in: XID codes of a tier, where a line ends in `# tier: NAME` (from the XID catalogue); settings, where it
ends in `# setting: NAME` (from rules/settings.toml); the `runbook_url` of each alert; the tables of codes in
runbooks and of settings in rules/README.md. Written: deploy/prometheus/rules/ (for those without the operator),
docs/xids.md, docs/runbooks/README.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpuledger.metrics.xids import read_xids, render_page, render_table
from gpuledger.parse.xids import XidCatalogue

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
PLAIN = ROOT / "deploy" / "prometheus" / "rules"
RUNBOOKS = ROOT / "docs" / "runbooks"

RUNBOOK_BASE = "https://github.com/gpuledger/gpuledger/blob/main/docs/runbooks/"
"""Where the alerts' `runbook_url` leads: the one place that says so."""

INDEX_HEAD = """\
# Runbooks

Generated from `rules/` by `python rules/generate.py`: one page an alert. Each says what the alert means, what
it costs, how to find the cause, and what to do. What stands in capitals (`NODE`, `GPU-UUID`, `NAMESPACE`,
`POD`) is a label of the alert. Commands on a node need a shell there:
`kubectl debug node/NODE -it --profile=sysadmin --image=busybox -- chroot /host`. gpuledger's own objects have
the names of [deploy/manifests](../../deploy/manifests/); put yours in place of them if you gave it others.

`audience` says whom an alert is for: `platform` repairs nodes and runs gpuledger, `owner` owns the namespace,
`security` decides who may use what. [deploy/alertmanager](../../deploy/alertmanager/) routes by it.
"""


def render_outputs() -> dict[Path, str]:
    """Every file that this program keeps, with the text that it should have."""
    catalogue, settings = read_xids(), read_settings()
    values = {f"setting: {name}": str(setting["value"]) for name, setting in settings.items()}
    values |= tier_codes(catalogue)
    rules = {path: fill_rules(path.read_text(), values) for path in sorted(RULES.rglob("*.yaml"))}
    runbooks = {path: fill_tables(path.read_text(), catalogue) for path in sorted(RUNBOOKS.glob("Gpu*.md"))}
    plain = {PLAIN / path.relative_to(RULES): render_plain(path, text) for path, text in rules.items()}
    pages = {ROOT / "docs" / "xids.md": render_page(catalogue), RUNBOOKS / "README.md": render_index(rules)}
    guide = {RULES / "README.md": fill_settings((RULES / "README.md").read_text(), settings)}
    return {**rules, **runbooks, **plain, **pages, **guide}


def read_settings() -> dict[str, dict[str, Any]]:
    """What differs from cluster to cluster, by name: its value, and what it means."""
    return tomllib.loads((RULES / "settings.toml").read_text())


def tier_codes(catalogue: XidCatalogue) -> dict[str, str]:
    """A regular expression for the codes of each tier, and for those of all others, by the marker for it."""
    codes = {f"tier: {tier}": [str(xid.code) for xid in catalogue.of_tier(tier)] for tier in catalogue.tiers}
    others = {
        f"tier: all but {tier}": [str(code) for code, xid in catalogue.xids.items() if xid.tier.name != tier]
        for tier in catalogue.tiers
    }
    return {marker: "|".join(found) for marker, found in {**codes, **others}.items()}


MARKED = re.compile(
    r'((?<=")[^"\n]*(?=")|[\d.]+)([^"\d\n]*"?[^"\d\n]*  # ((?:tier|setting): [\w -]+))$', re.MULTILINE
)
"""The last string or number before a marker, and the marker."""


def fill_markers(text: str, values: Mapping[str, str]) -> str:
    """The text of rules with the value of each marker, `setting: NAME` or `tier: NAME`, where it stands.

    A value may be anything that replaces the text, such as the expression of a template. Raises KeyError for a
    marker without one.
    """
    return MARKED.sub(lambda found: values[found[3]] + found[2], text)


def fill_rules(text: str, values: Mapping[str, str]) -> str:
    """The text of a rule file with each alert's runbook, and the value of each marker."""
    alert = ""
    lines = []
    for line in text.splitlines(keepends=True):
        if named := re.search(r"- alert: (\w+)", line):
            alert = named[1]
        lines.append(re.sub(r"runbook_url:.*", f"runbook_url: {RUNBOOK_BASE}{alert}.md", line))
    return fill_markers("".join(lines), values)


def fill_settings(text: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """rules/README.md with the table of settings between `<!-- settings -->` and `<!-- end -->`."""
    rows = "".join(
        f"| `{name}` | `{str(setting['value']).replace('|', chr(92) + '|')}` | {setting['meaning']} |\n"
        for name, setting in settings.items()
    )
    table = f"\n| setting | value | meaning |\n|---|---|---|\n{rows}\n"
    return re.sub(
        r"(<!-- settings -->\n).*?(?=<!-- end -->)", lambda found: found[1] + table, text, flags=re.DOTALL
    )


def fill_tables(text: str, catalogue: XidCatalogue) -> str:
    """The text of a runbook with a tier's codes between `<!-- xids: TIER -->` and `<!-- end -->`."""
    return re.sub(
        r"(<!-- xids: (\w+) -->\n).*?(?=<!-- end -->)",
        lambda found: f"{found[1]}\n{render_table(catalogue.of_tier(found[2]))}\n",
        text,
        flags=re.DOTALL,
    )


def render_plain(path: Path, text: str) -> str:
    """A PrometheusRule object's groups as a rule file of Prometheus, comments and all."""
    head, groups = text.split("spec:\n", maxsplit=1)
    comments = "".join(line for line in head.splitlines(keepends=True) if line.startswith("#"))
    made = f"# Made from {path.relative_to(ROOT)} by `python rules/generate.py`; change that.\n"
    return made + comments + textwrap.dedent(groups)


def render_index(rules: Mapping[Path, str]) -> str:
    """docs/runbooks/README.md: every alert by topic."""
    return INDEX_HEAD + "".join(
        f"\n## {path.relative_to(RULES).with_suffix('')}\n\n"
        "| alert | severity | audience | meaning |\n|---|---|---|---|\n"
        + "".join(
            f"| [{alert['alert']}]({alert['alert']}.md) | {alert['labels']['severity']} "
            f"| {alert['labels']['audience']} | {alert['annotations']['summary']} |\n"
            for alert in alerts
        )
        for path, text in rules.items()
        if (alerts := list(parse_alerts(text)))
    )


def parse_alerts(text: str) -> Iterator[dict[str, Any]]:
    """The alerting rules of a PrometheusRule object."""
    for group in yaml.safe_load(text)["spec"]["groups"]:
        yield from (rule for rule in group["rules"] if "alert" in rule)


def main(arguments: Sequence[str]) -> int:
    """Write all, or with --check name what differs; 1 when something does."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    outputs = render_outputs()
    stray = {path for path in PLAIN.rglob("*.yaml") if path not in outputs}
    differing = {p for p, text in outputs.items() if not p.exists() or p.read_text() != text} | stray
    if arguments:
        for path in sorted(differing):
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date; run python rules/generate.py\n")
        return 1 if differing else 0
    for path in stray:
        path.unlink()
    for path in differing - stray:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outputs[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
