"""Reducers of servers' codes compared: networks of interferometers, sums of digits, a reducer chip, a packet switch."""
