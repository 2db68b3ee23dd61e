"""Models as compute graphs: traced, from the zoo, or read from files and traces."""
