"""What several benchmarks share: measuring processes, peers, tables and figures."""
