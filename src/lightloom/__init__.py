"""lightloom: from a PyTorch model and a cluster to the collective, the wavelengths and the step time."""
