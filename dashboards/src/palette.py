"""Colours that people with any colour vision tell apart, and what they mean.

Okabe and Ito's palette (Color Universal Design, 2008) and a grey. No panel says a thing by colour alone.
"""

from __future__ import annotations

GOOD = "#0072B2"
NOTICE = "#56B4E9"
WARNING = "#E69F00"
BAD = "#D55E00"
ELSE = "#707070"
EXTRA = "#CC79A7"
"""A sixth kind, where one is needed."""

Steps = tuple[tuple[float | None, str], ...]
"""From which value on which colour; the first step has no value."""

PLAIN: Steps = ((None, NOTICE),)
"""A quantity that is neither good nor bad."""

FAULT_IF_ANY: Steps = ((None, GOOD), (1, BAD))
DOUBT_IF_ANY: Steps = ((None, GOOD), (1, WARNING))
FAULT_IF_NONE: Steps = ((None, BAD), (1, GOOD))

FILLING: Steps = ((None, GOOD), (0.8, WARNING), (0.95, BAD))
"""A share of something finite: above 95 % the next one waits."""

EFFICIENCY: Steps = ((None, BAD), (0.1, WARNING), (0.5, GOOD))
"""Use of what is held: below a tenth somebody else could have it, above half nobody complains."""

COVERAGE: Steps = ((None, BAD), (0.9, WARNING), (0.99, GOOD))
"""Share of what should be known: the alert fires below 90 %."""

HEADROOM: Steps = ((None, BAD), (3, WARNING), (10, GOOD))
"""Degrees below the temperature at which the hardware slows itself down: the alert fires below 3."""

LIFETIME_LEFT: Steps = ((None, BAD), (0, WARNING), (3 * 86400, GOOD))
"""Of a certificate, in seconds: GpuWebCertificateExpiring warns below three days."""

SEVERITY = {"critical": BAD, "high": WARNING, "medium": NOTICE, "low": GOOD, "info": ELSE}

State = tuple[str, str]
"""A value's text and colour."""

YES_NO: dict[str, State] = {"1": ("yes", GOOD), "0": ("no", BAD)}
ON_OFF: dict[str, State] = {"1": ("on", NOTICE), "0": ("off", ELSE)}
PENDING: dict[str, State] = {"1": ("yes", BAD), "0": ("no", GOOD)}

RECOVERY: dict[str, State] = {
    "0": ("none", GOOD),
    "1": ("reset", BAD),
    "2": ("restart node", BAD),
    "3": ("drain peer-to-peer", WARNING),
    "4": ("drain and reset", BAD),
}

PHASE = {"Running": GOOD, "Pending": WARNING, "Succeeded": ELSE, "Failed": BAD, "Unknown": EXTRA}
