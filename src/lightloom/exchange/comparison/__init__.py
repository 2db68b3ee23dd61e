"""Exchanges compared by training: equal steps, equal time over a link of stated speed, bytes against loss."""
