"""The only input and output: one outside thing a file."""
