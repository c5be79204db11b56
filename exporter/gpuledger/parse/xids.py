"""The XID catalogue: what the driver's error codes mean, and whom they concern."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["fault", "no-fault", "open"]
"""What somebody makes of a GPU that reports a code: it is at fault, it is not, or that depends."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Codes that are handled alike; `alert` is the one that they raise, empty where they raise none."""

    name: str
    alert: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Action:
    """What NVIDIA's catalogue asks for, by the name that it has there."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class Xid:
    """A code; `verdicts` holds what NVIDIA and others make of it, by source."""

    code: int
    tier: Tier
    mnemonic: str
    meaning: str
    action: Action
    verdicts: Mapping[str, Verdict]

    @property
    def disputed(self) -> bool:
        """Whether some see a fault of the GPU where others see none."""
        return {"fault", "no-fault"} <= set(self.verdicts.values())


@dataclass(frozen=True, slots=True)
class XidCatalogue:
    """All codes by number; `sources` are the titles of those whose verdicts are given."""

    version: str
    tiers: Mapping[str, Tier]
    sources: Mapping[str, str]
    xids: Mapping[int, Xid]

    def of_tier(self, name: str) -> tuple[Xid, ...]:
        """The codes of one tier, in order."""
        return tuple(xid for xid in self.xids.values() if xid.tier.name == name)


def parse_xids(text: str) -> XidCatalogue:
    """Parse the catalogue's TOML; an unknown tier or action raises KeyError, a code given twice ValueError."""
    document = tomllib.loads(text)
    tiers = {name: Tier(name, **table) for name, table in document["tiers"].items()}
    actions = {name: Action(name, **table) for name, table in document["actions"].items()}
    sources = document["sources"]
    xids: dict[int, Xid] = {}
    for key, table in sorted(document["xids"].items(), key=lambda item: int(item[0])):
        code, action = int(key), actions[table["nvidia"]]
        verdicts = {"nvidia": action.verdict, **_verdicts(code, sources)}
        xids[code] = Xid(code, tiers[table["tier"]], table["mnemonic"], table["meaning"], action, verdicts)
    titles = {name: source["title"] for name, source in sources.items()}
    return XidCatalogue(document["version"], tiers, titles, xids)


def _verdicts(code: int, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Verdict]:
    verdicts: tuple[Verdict, ...] = ("fault", "no-fault")
    return {name: v for name, source in sources.items() for v in verdicts if code in source.get(v, ())}
