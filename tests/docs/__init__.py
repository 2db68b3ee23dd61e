"""The documentation: its links and its folders."""
