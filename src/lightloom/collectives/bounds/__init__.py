"""Lower bounds on the time of a collective, which no schedule can beat."""
