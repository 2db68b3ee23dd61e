"""How data travels: schedules, their proof and their cost."""
