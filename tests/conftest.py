"""How hard Hypothesis searches: `make test` tries the same examples each time, `make fuzz` ever new ones."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Answers are judged, not their speed: a machine that is busy is no failure.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("ci", _ANY_SPEED, derandomize=True, database=None, max_examples=300)
settings.register_profile("fuzz", _ANY_SPEED, max_examples=5_000)
settings.load_profile("ci")  # --hypothesis-profile=fuzz comes later and wins
