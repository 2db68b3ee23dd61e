"""What users call: the commands, and the functions of ``import lightloom``."""
