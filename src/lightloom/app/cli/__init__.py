"""The commands of ``lightloom``, one module each."""
