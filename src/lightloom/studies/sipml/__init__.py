"""SiP-ML (Khani et al., SIGCOMM 2021): degrees, placement, circuits, and training time against electrical fabrics."""
