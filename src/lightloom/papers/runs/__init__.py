"""Training runs whose accuracy the studies report."""
