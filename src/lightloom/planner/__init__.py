"""Which schedule wins."""
