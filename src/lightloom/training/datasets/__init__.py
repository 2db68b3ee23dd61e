"""Public data sets, read from a folder that the user has; nothing is downloaded."""
