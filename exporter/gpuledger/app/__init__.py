"""Wiring: command line, configuration, the loop, HTTP, pages."""
