"""Links to NumPy, SciPy and scikit-learn by the addresses that their sites give to names.

intersphinx would fetch a list of names from each site whenever the pages are built; `make docs` needs no
network. That a name exists is checked by importing it.
"""

from importlib import import_module

from docutils import nodes

GENERATED = {
    "numpy": "https://numpy.org/doc/stable/reference/generated/{name}.html",
    "scipy": "https://docs.scipy.org/doc/scipy/reference/generated/{name}.html",
    "sklearn": "https://scikit-learn.org/stable/modules/generated/{name}.html",
}
SHORT = {
    "ndarray": "numpy.ndarray",
    "np.ndarray": "numpy.ndarray",
    "Generator": "numpy.random.Generator",
    "RandomState": "numpy.random.RandomState",
    "Pipeline": "sklearn.pipeline.Pipeline",
}


def exists(name):
    """Whether a dotted name can be imported."""
    module, _, rest = name.rpartition(".")
    while module:
        try:
            found = import_module(module)
        except ImportError:
            module, _, first = module.rpartition(".")
            rest = f"{first}.{rest}"
            continue
        for part in rest.split("."):
            found = getattr(found, part, None)
        return found is not None
    return False


def address(name):
    """The page of a name of another project, or None."""
    name = SHORT.get(name, name)
    pattern = GENERATED.get(name.partition(".")[0])
    return pattern.format(name=name) if pattern and exists(name) else None


def resolve(_app, _env, node, content):
    """A link for a reference that this site does not have."""
    target = address(node.get("reftarget", ""))
    if target is None:
        return None
    return nodes.reference("", "", content, internal=False, refuri=target)


def setup(app):
    """Sphinx calls this once."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
