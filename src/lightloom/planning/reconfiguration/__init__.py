"""Circuit switches that are set anew between the phases of a training step."""
