"""Figures of a run."""

from ictrl.report.figures import overview

__all__ = ["overview"]
