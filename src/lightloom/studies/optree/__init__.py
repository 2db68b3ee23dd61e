"""OpTree: all-gather on a ring of wavelengths (Dai, Chen, Huang and Zhang, ICC 2023)."""
