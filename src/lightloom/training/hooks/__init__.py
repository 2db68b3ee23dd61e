"""Communication hooks for DDP and FSDP2, and what they share."""
