"""The search for the fastest plan, and what it returns."""
