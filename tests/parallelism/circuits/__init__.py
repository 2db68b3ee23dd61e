"""Circuit assignment."""
