"""The INCEPTIONN codec on GPUs."""
