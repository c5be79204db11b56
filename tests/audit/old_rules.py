"""The rules of the script that `gpuledger audit` replaces, restated from its behaviour.

They are kept as wrong as they were: what is better now is listed in docs/audit.md and asserted beside this.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

Object = dict[str, Any]
Row = tuple[str, str, int, list[tuple[str, str, str]]]
"""Namespace, pod, cards, and findings as (container or "-", check, detail)."""


def old_output(dump: str, *, every_pod: bool = False) -> str:
    """What the script printed for a dump."""
    rows = list(_rows(json.loads(dump)["items"], every_pod=every_pod))
    if not rows:
        return "no pods found\n" if every_pod else "no GPU pods found\n"
    lines = [f"{f'{namespace}/{pod}':<44} {cards:>4} GPU" for namespace, pod, cards, _ in rows]
    findings = 0
    for namespace, pod, _, found in rows:
        for container, check, detail in found:
            place = f"{namespace}/{pod}" if container == "-" else f"{namespace}/{pod} {container}"
            lines.append(f"[FINDING] {place}: {check}" + (f" ({detail})" if detail else ""))
            findings += 1
    flagged = sum(1 for *_, found in rows if found)
    cards = sum(row[2] for row in rows)
    lines += ["", f"{len(rows)} pod(s) audited, {cards} card(s) requested, {findings} finding(s)"]
    lines.append(f"ALERT {flagged} of {len(rows)} pod(s) need review" if flagged else "OK clean")
    return "\n".join(lines) + "\n"


def _rows(pods: Iterable[Object], *, every_pod: bool) -> Iterator[Row]:
    for pod in pods:
        meta, containers = pod.get("metadata") or {}, (pod.get("spec") or {}).get("containers") or []
        cards = sum(_cards(container) for container in containers)
        if cards or every_pod:
            yield (
                meta.get("namespace", "default"),
                meta.get("name", "?"),
                cards,
                list(_findings(pod, containers)),
            )


def _findings(pod: Object, containers: list[Object]) -> Iterator[tuple[str, str, str]]:
    for container in containers:
        name = container.get("name", "?")
        image = str(container.get("image", ""))
        if not _is_pinned(image):
            yield name, "unpinned image", image
        limits = (container.get("resources") or {}).get("limits") or {}
        if not limits.get("cpu") or not limits.get("memory"):
            yield name, "no cpu/memory limits", ""
        if (container.get("securityContext") or {}).get("privileged") is True:
            yield name, "privileged container", ""
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        if "hostPath" in volume:
            yield "-", "hostPath volume", volume.get("name", "?")


def _cards(container: Object) -> int:
    """The largest whole number under either of two names, in requests or limits."""
    resources = container.get("resources") or {}
    parts = (resources.get("requests") or {}, resources.get("limits") or {})
    amounts = (part.get(name, 0) for part in parts for name in ("nvidia.com/gpu", "amd.com/gpu"))
    return max(int(amount) if re.fullmatch(r"[0-9]+", str(amount)) else 0 for amount in amounts)


def _is_pinned(image: str) -> bool:
    if "@sha256:" in image:
        return True
    last = image.rsplit("/", maxsplit=1)[-1]
    return ":" in last and not last.endswith(":latest")
