"""Averaging networks that are trained, as in OptINC (arXiv 2603.28290), and noise-aware ones to compare with."""
