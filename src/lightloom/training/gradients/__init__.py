"""Gradients averaged over processes: buffers, residuals, connections, exchangers, and their use in DDP and FSDP2."""
