"""Pictures of a fit: arrays in, Axes out, nothing is fitted here.

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

from mercer.plots.biplot import arrows
from mercer.plots.charts import contribution_bars, control_charts, spectrum
from mercer.plots.contours import levels
from mercer.plots.images import faces, ladder
from mercer.plots.scatter import panels, scores

__all__ = [
    "arrows",
    "contribution_bars",
    "control_charts",
    "faces",
    "ladder",
    "levels",
    "panels",
    "scores",
    "spectrum",
]
