"""Shell scripts read without being run: which commands they would call with which words."""
