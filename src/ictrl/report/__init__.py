"""Figures of a run, and the page that shows them."""

from ictrl.report.overview import overview
from ictrl.report.writing import Written, write_report

__all__ = ["Written", "overview", "write_report"]
