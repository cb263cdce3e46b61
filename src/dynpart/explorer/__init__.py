"""Explorer: a model and some data as one interactive HTML file. Uses fitted models.

The page needs no server and no network. Python packs the numbers, the page computes the rest: it
holds the ranks of expertise, so owners are computed again whenever an expert is switched.
"""

from dynpart.explorer._page import report_html, write_report

__all__ = ["report_html", "write_report"]
