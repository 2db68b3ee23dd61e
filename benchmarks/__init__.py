"""What our own work costs: CPU seconds and memory, against stated limits. Never part of the tests."""
