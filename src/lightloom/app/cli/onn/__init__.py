"""``lightloom onn``: build, train, verify, map and disturb averaging networks."""
