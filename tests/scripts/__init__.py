"""The scripts that count and draw the source tree."""
