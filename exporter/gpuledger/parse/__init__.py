"""Text and bytes of the outside world, parsed into core values; pure."""
