"""``lightloom plan``: the fastest way to train a model on a cluster."""
