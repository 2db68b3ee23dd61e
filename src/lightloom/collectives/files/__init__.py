"""Schedules and workloads that leave and enter: JSON, Arrow, Parquet, Chakra, MSCCL, execution traces."""
