"""The Python API behind ``import lightloom``: one function for each question, and results that show themselves."""
