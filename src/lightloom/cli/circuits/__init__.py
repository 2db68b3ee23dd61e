"""``lightloom circuits``: circuits of a traffic matrix."""
