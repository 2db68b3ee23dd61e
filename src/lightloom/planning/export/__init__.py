"""The chosen split as settings of training frameworks."""
