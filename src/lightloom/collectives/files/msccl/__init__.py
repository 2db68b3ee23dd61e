"""Programs of MSCCL, which GPU runtimes of collectives read: written, checked and read back."""
