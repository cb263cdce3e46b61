"""Explorer: a model and some data as one HTML file to look around in. Knows fitted models.

The page needs no server and no network. Python packs the numbers, the page does the rest: it holds
the ranks of expertise, so that owners can be computed anew whenever an expert is switched.
"""

from dynpart.explorer._page import report_html, write_report

__all__ = ["report_html", "write_report"]
