"""Hardware that clusters are built of: parts, accelerators, fabrics, network software, clusters, and their catalogs."""
