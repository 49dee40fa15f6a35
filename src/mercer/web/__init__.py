"""`mercer explore`: kernel PCA on a page of one's own machine, and in a notebook.

The page speaks to `Session.answer` alone: over HTTP by `server.py`, in a notebook by `widget.py`. What it
shows is computed in `mercer.app.explore`; here are the door, the queue and the locks.
"""

from mercer.web.launch import Explorer, explore

__all__ = ["Explorer", "explore"]
