"""The demo: both roles over a simulated cluster."""
