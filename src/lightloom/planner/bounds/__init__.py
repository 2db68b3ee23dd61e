"""Lower bounds of step times, from prices of few sizes and without simulation."""
