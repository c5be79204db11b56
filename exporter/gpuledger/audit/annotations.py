"""Exceptions that a manifest carries itself: honoured in files, which a review sees, never in live objects."""

from __future__ import annotations

from collections.abc import Mapping

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
