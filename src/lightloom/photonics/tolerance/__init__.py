"""Which averagers bear errors of their devices: wrong words over fabrications, a search, limits."""
