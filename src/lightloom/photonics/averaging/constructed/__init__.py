"""Averaging circuits that are exact by construction, one construction per file."""
