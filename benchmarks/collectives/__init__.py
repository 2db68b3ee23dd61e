"""Collectives: schedules of many ranks, of uneven sizes, without barriers, on graphs and by phases."""
