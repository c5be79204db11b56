"""The XID catalogue as it comes with this package, and what is written from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gpuledger.parse.xids import Tier, Xid, XidCatalogue, parse_xids

HEAD = """\
# XID codes

Generated from `exporter/gpuledger/metrics/xids.toml`, version {version}, by `python rules/generate.py`.

An XID is an error that NVIDIA's driver reports for a GPU. gpuledger counts them
(`gpuledger_gpu_xid_errors_total{{xid}}`), says when the last was
(`gpuledger_gpu_xid_last_timestamp_seconds{{xid}}`) and who was on the GPU then
(`gpuledger_gpu_xid_pod_info{{xid}}`). Each code has one tier, which decides on the alert. A code above {last}
is new to this list and alerts as unclassified. An error that Prometheus sees late, because it or the way to the
node was away, alerts all the same for 6 hours; only an exporter that restarts before it is scraped forgets it.

**Changing a tier.** Tiers are for those to decide who repair the GPUs, not for those who use them: change
`tier` in the file, raise `version`, run `python rules/generate.py`, say why in the commit, and let the platform
team review it. A code is marked disputed where the sources below differ on whether the GPU is at fault: look at
those first when there are too many alerts or too few. Where one cluster has to differ, its chart's value
`prometheusRule.xidTiers` names all codes of a tier in place of these; a code that leaves one tier there has to
stand in another, or nobody hears of it.

| source | what it says |
|---|---|
| nvidia | XID catalogue of 2025-10-29 for Ampere and newer: what to do at once |
{sources}"""


@cache
def read_xids() -> XidCatalogue:
    """The catalogue."""
    return parse_xids(Path(__file__).with_name("xids.toml").read_text(encoding="utf-8"))


def render_page(catalogue: XidCatalogue) -> str:
    """docs/xids.md: every code by tier."""
    sources = "".join(f"| {name} | {title} |\n" for name, title in catalogue.sources.items())
    sections = "".join(_section(tier, catalogue.of_tier(tier.name)) for tier in catalogue.tiers.values())
    return HEAD.format(version=catalogue.version, last=max(catalogue.xids), sources=sources) + sections


def _section(tier: Tier, xids: Iterable[Xid]) -> str:
    alert = f"Alert: [{tier.alert}](runbooks/{tier.alert}.md)" if tier.alert else "No alert."
    return f"\n## {tier.name.capitalize()}\n\n{tier.meaning} {alert}\n\n{render_table(xids)}"


def render_table(xids: Iterable[Xid]) -> str:
    """A Markdown table of these codes: what each means and what to do."""
    head = "| XID | meaning | what to do | disputed | mnemonic |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {xid.code} | {xid.meaning} | {xid.action.text} | {_dispute(xid)} | `{xid.mnemonic}` |\n"
        for xid in xids
    )


def _dispute(xid: Xid) -> str:
    """Who sees a fault and who sees none; empty where nobody contradicts."""
    if not xid.disputed:
        return ""
    sides = {v: ", ".join(n for n, said in xid.verdicts.items() if said == v) for v in ("fault", "no-fault")}
    return f"fault: {sides['fault']}; none: {sides['no-fault']}"
