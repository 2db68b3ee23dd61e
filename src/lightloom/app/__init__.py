"""The commands, and the functions of ``import lightloom``, which users call."""
