"""Time and energy of a training step."""
