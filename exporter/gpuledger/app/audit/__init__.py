"""The audit command: dumps, manifests or a live cluster in, findings out."""
