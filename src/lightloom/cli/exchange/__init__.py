"""``lightloom exchange``: gradient exchanges, what they send, and what they do to training."""
