"""The report of a run: its figures, and the page that shows them.

A figure of your own is a function that `@figure` enters in the catalogue (`ictrl.report.catalogue`).
"""

from ictrl.report.catalogue import Figure, comparison, figure
from ictrl.report.house_style import canvas
from ictrl.report.overview import overview
from ictrl.report.record import RunRecord
from ictrl.report.thumbnails import PictureTable
from ictrl.report.writer import Written, write_report

__all__ = [
    "write_report",
    "Written",
    "overview",
    # for a figure of your own
    "figure",
    "comparison",
    "Figure",
    "PictureTable",
    "RunRecord",
    "canvas",
]
