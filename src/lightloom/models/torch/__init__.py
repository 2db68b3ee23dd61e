"""The only place below training where PyTorch enters: tracing a module, and the zoo."""
