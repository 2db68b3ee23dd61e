"""One plug-in of each kind for lightloom."""
