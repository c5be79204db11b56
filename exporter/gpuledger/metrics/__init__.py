"""The metric catalogue, and snapshots rendered as exposition text."""
