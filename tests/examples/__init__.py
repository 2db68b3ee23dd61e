"""The examples and the Python of the README, executed."""
