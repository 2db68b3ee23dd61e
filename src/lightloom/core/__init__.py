"""Shared foundations of every room: errors, units, files, provenance, plug-ins, claims of studies."""
