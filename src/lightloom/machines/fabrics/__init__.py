"""Where data travels."""
