"""Pictures as values: arrays, captions and tables, which matplotlib, SVG and JSON render.

A view is made from a fitted model and rows, or from arrays, and never changes; `to_dict` gives it as
JSON has it. Nothing here draws.

Examples
--------
>>> from mercer import views
>>> view = views.spectrum([6.0, 3.0], total=10.0)
>>> view.to_dict()["shares"]
[0.6, 0.3]
"""

from mercer.views.base import Listing, View
from mercer.views.classes import Classes
from mercer.views.leaders import (
    Contributions,
    ContributionsOverTime,
    contributions,
    contributions_over_time,
    event_blame,
)
from mercer.views.process import ControlCharts, control_charts, monitoring
from mercer.views.scatter import Scores, biplot, scores
from mercer.views.sheets import Images, components, images, ladder
from mercer.views.surface import Levels, levels
from mercer.views.variance import (
    Distances,
    Reconstruction,
    Spectrum,
    distances,
    reconstruction,
    spectrum,
)

__all__ = [
    "Classes",
    "Contributions",
    "ContributionsOverTime",
    "ControlCharts",
    "Distances",
    "Images",
    "Levels",
    "Listing",
    "Reconstruction",
    "Scores",
    "Spectrum",
    "View",
    "biplot",
    "components",
    "contributions",
    "contributions_over_time",
    "control_charts",
    "distances",
    "event_blame",
    "images",
    "ladder",
    "levels",
    "monitoring",
    "reconstruction",
    "scores",
    "spectrum",
]
