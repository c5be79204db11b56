"""What a scrape said, looked at as Prometheus would: series by name and labels."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gpuledger.core.spec import PREFIX
from tools.prometheus import Sample


class Exposition:
    """A scrape's text, parsed: gpuledger's own metrics, by their names without the prefix."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples: dict[str, list[Sample]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith(PREFIX):
                    found = self._samples.setdefault(sample.name.removeprefix(PREFIX), [])
                    found.append(Sample(sample.labels, float(sample.value)))

    @property
    def books(self) -> str:
        """The lines that tell who uses what, for a failure's message."""
        told = (
            "gpu_up",
            "gpu_memory_used",
            "container_",
            "process_",
            "unattributed_",
            "attribution_",
            "source_",
        )
        wanted = tuple(PREFIX + name for name in told)
        return "\n".join(line for line in self.text.splitlines() if line.startswith(wanted))

    @property
    def names(self) -> frozenset[str]:
        """The names of all series that are there."""
        return frozenset(self._samples)

    def series(self, name: str, **labels: str) -> list[Sample]:
        """The series of that name with these labels, whatever others they have."""
        return [s for s in self._samples.get(name, []) if labels.items() <= s.labels.items()]

    def value(self, name: str, **labels: str) -> float | None:
        """The one series' value, None where there is none; fails on several."""
        found = self.series(name, **labels)
        assert len(found) <= 1, found
        return found[0].value if found else None
