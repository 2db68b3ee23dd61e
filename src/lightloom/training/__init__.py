"""Running it for real."""
