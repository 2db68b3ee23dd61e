"""The documentation site: pages made from the code, notebooks as pages, and a check of what was built."""
