"""Frozen values and pure arithmetic: no clock, no file, no socket."""
