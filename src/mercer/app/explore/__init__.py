"""What `mercer explore` shows, as values: headers of plain JSON and arrays, for a page or a notebook.

Nothing here draws, and nothing here speaks HTTP: `mercer.web` does. Files are read, models fitted and saved
by the use cases of `mercer.app`, pictures are those of `mercer.views`.

Examples
--------
>>> import tempfile
>>> from mercer.app.explore import Dataset, Recipe, fitted, panels, write_builtin
>>> folder = tempfile.TemporaryDirectory()
>>> data = write_builtin("circles", folder.name)
>>> model = fitted(Recipe(kernel="rbf(gamma=2)", components=3), data, "rest")
>>> panel = panels(model, {"scores": {"components": [0, 1]}}, "rest")
>>> panel.arrays["scores"].shape, panel.header["fit"]["approximate"]
((400, 2), False)
>>> folder.cleanup()
"""

from mercer.app.explore.dataset import Dataset
from mercer.app.explore.fitting import Shown, fitted
from mercer.app.explore.panels import panels
from mercer.app.explore.planes import Panel
from mercer.app.explore.recipe import BUILTINS, Recipe, write_builtin

__all__ = ["BUILTINS", "Dataset", "Panel", "Recipe", "Shown", "fitted", "panels", "write_builtin"]
