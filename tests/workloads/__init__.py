"""Tests of what is trained."""
