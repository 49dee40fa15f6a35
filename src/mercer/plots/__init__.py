"""Pictures of a fit: a fitted model and rows in, or arrays, and Axes out. Nothing is fitted here.

What is drawn is computed in `mercer.views`, once for every kind of picture.

Matplotlib is imported when the first picture is drawn, never before. No function shows a window or
changes a global setting; what is returned can be restyled and saved by the caller.

Examples
--------
>>> import numpy as np
>>> from matplotlib.figure import Figure
>>> from mercer import plots
>>> ax = plots.spectrum([6.0, 3.0], total=10.0, ax=Figure().subplots())
>>> ax.get_ylabel()
'share of the variance (%)'
"""

from mercer.plots.charts import (
    contribution_bars,
    contributions_over_time,
    control_charts,
    monitoring,
    spectrum,
)
from mercer.plots.contours import contours, levels
from mercer.plots.images import components, faces, ladder, reconstruction
from mercer.plots.scatter import arrows, panels, scores

__all__ = [
    "arrows",
    "components",
    "contours",
    "contribution_bars",
    "contributions_over_time",
    "control_charts",
    "faces",
    "ladder",
    "levels",
    "monitoring",
    "panels",
    "reconstruction",
    "scores",
    "spectrum",
]
