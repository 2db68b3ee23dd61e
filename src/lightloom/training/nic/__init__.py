"""An emulated network interface that compresses gradient packets."""
