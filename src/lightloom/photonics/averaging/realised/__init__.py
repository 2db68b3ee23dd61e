"""Networks compiled from circuits: weights, files and area."""
