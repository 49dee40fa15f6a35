"""matplotlib's ``plot`` directive in Markdown pages.

The directive writes reStructuredText and asks its parser to read it next, which MyST's parser can't. So a
plot in Markdown is handed on as the same plot in an ``eval-rst`` block.
"""

from docutils import nodes
from docutils.statemachine import StringList
from matplotlib.sphinxext.plot_directive import PlotDirective
from myst_parser.mocking import MockStateMachine


class Plot(PlotDirective):
    """The directive, in either language."""

    def run(self):
        """The nodes of a plot."""
        if not isinstance(self.state_machine, MockStateMachine):
            return super().run()
        options = [
            f"   :{name}: {_written(value)}".rstrip() for name, value in self.options.items()
        ]
        code = [f"   {line}" for line in self.content]
        lines = [
            "````{eval-rst}",
            f".. plot:: {' '.join(self.arguments)}",
            *options,
            "",
            *code,
            "````",
        ]
        holder = nodes.Element()
        self.state.nested_parse(
            StringList(lines, source=self.state.document["source"]), self.lineno, holder
        )
        return holder.children


def _written(value):
    """An option as it stands in a page: a flag is None once it is read, a list of classes a list."""
    if isinstance(value, list):
        return " ".join(value)
    return "" if value is None else value


def setup(app):
    """Sphinx calls this once."""
    app.setup_extension("matplotlib.sphinxext.plot_directive")
    app.add_directive("plot", Plot, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
