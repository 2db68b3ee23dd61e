"""Output for readers: figures, HTML pages, terminal tables, traces.

schedule, timeline ──▶ Figure ──▶ svg ──┐
ranking, claims, facts ─────────────────┴─▶ Report ──▶ HTML page, terminal
"""
