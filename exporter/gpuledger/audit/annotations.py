"""Exceptions that a manifest carries itself: honoured in files, which a review sees, never in live objects."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

PREFIX = "ignore.gpuledger.io/"


def annotated_reason(annotations: Mapping[str, str], check: str, container: str) -> str:
    """Why annotations excuse a check, for the pod or one container; empty where they give no reason.

    `ignore.gpuledger.io/<check>: <reason>` excuses the pod, `ignore.gpuledger.io/<check>.<container>` a
    container.
    """
    for key in (f"{PREFIX}{check}.{container}", f"{PREFIX}{check}"):
        if reason := annotations.get(key, "").strip():
            return reason
    return ""


def vain_annotations(annotations: Mapping[str, str], checks: Container[str]) -> Iterator[str]:
    """What is to be said of annotations that excuse nothing; `checks` are the ids that exist."""
    for key, reason in annotations.items():
        if key.startswith(PREFIX):
            check = key.removeprefix(PREFIX).partition(".")[0]
            if check not in checks:
                yield f"annotation {key} excuses nothing: no check {check!r}"
            elif not reason.strip():
                yield f"annotation {key} excuses nothing: it gives no reason"
