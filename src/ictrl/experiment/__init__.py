"""Runs: a stream of tasks through a learner, measured, resumable."""
