"""Checks of what GPU pods may do to the host they share."""
