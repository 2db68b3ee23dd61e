"""Verified schedules executed by real processes on real tensors."""
