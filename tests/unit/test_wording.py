"""Sentences whose parameters are data: Python's words as text, other words where they are asked for."""

import copy
import pickle
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import KernelPCA
from mercer._core.errors import ParameterError, RankWarning, Remedy
from mercer._core.findings import Finding, collected, silenced, warn
from mercer._core.wording import Message, written
from mercer.cli.ending import flags
from mercer.cli.main import main


def command(name):
    """How a command writes parameters."""
    found = main.get_command(None, name)
    return flags({param.name: param for param in found.params})


SENTENCES = {
    "a name": ("Raise {memory}.", "Raise `memory`.", "Raise --memory."),
    "a bare name": ("{tol!s} or {memory!s}", "tol or memory", "tol or --memory"),
    "a value": ("Use {preimage:'ridge'}.", "Use preimage='ridge'.", "Use --preimage ridge."),
    "nothing": ("Use {preimage:None}.", "Use preimage=None.", "Use no --preimage."),
    "all": ("{n_components:None}", "n_components=None", "--components all"),
    "an object": (
        "{approximation:RPCholesky(rank=5)}",
        "approximation=RPCholesky(rank=5)",
        '--approximation "rpcholesky(rank=5)"',
    ),
    "another name": ("{kind:pca}, {output:x}", "kind=pca, output=x", "--model pca, -o x"),
    "an argument": ("{data} is empty", "`data` is empty", "DATA is empty"),
    "a phrase": ("({n_samples!s})", "(n_samples)", "(the number of rows)"),
    "a size": ("{image_size:(6, 4)}", "image_size=(6, 4)", "--image-size 6x4"),
    "a switch": ("{header:False}", "header=False", "--no-header"),
    "a function": (
        "{mercer.check_kernel} shows it",
        "`mercer.check_kernel` shows it",
        "`mercer check` shows it",
    ),
}


@pytest.mark.parametrize(("template", "python", "shell"), SENTENCES.values(), ids=SENTENCES)
def test_one_sentence_in_the_words_of_python_and_of_the_shell(template, python, shell):
    message = Message(template)
    assert message == python
    assert message.written(command("fit")) == shell


# What stands in a cell of a file; an option of several takes blanks off their ends.
CELLS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=6)
CELLS = CELLS.map(str.strip).filter(bool)


@given(st.lists(CELLS, min_size=1, max_size=3, unique=True))
def test_a_shell_reads_the_option_that_a_sentence_advises(words):
    value = words[0] if len(words) == 1 else tuple(words)
    told = written(f"Use `na_values={value!r}`.", command("fit"))
    _, option, text = shlex.split(told.removesuffix("."))
    (param,) = (p for p in main.get_command(None, "fit").params if option in p.opts)
    assert param.type.convert(text, param, None) == tuple(words)


def test_parts_are_not_templates():
    inner = Message("raise {memory} to {size}", size="{memory}")
    message = Message("{path}: {inner}, {n_components:{k}}", path="{preimage}", inner=inner, k=3)
    assert message == "{preimage}: raise `memory` to {memory}, n_components=3"
    told = message.written(command("fit"))
    assert told == "{preimage}: raise --memory to {memory}, --components 3"
    assert written("a {plain} text", command("fit")) == "a {plain} text"


def test_what_stands_in_backquotes_is_a_name_too():
    text = (
        "Lower `n_components`, set `impute='mean'` or `one_hot=True`, see `model.plan()` and `tol`."
    )
    told = written(text, command("fit"))
    assert (
        told == "Lower --components, set --impute mean or --one-hot, see `model.plan()` and `tol`."
    )


@pytest.mark.parametrize("again", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
def test_messages_travel_with_what_carries_them(again):
    message = Message("Use {preimage:'ridge'} on {path}.", path="{odd}")
    for carrier in (ParameterError(message), RankWarning(message, numbers={"k": 2})):
        (found,) = again(carrier).args
        assert found == message
        assert found.written(command("fit")) == "Use --preimage ridge on {odd}."
    assert again(RankWarning(message, numbers={"k": 2})).numbers == {"k": 2}


def test_an_error_about_a_parameter_has_the_option_of_the_command():
    with pytest.raises(ParameterError) as refusal:
        KernelPCA(0, kernel="rbf").fit([[0.0], [1.0]])
    told = refusal.value.args[0].written(command("fit"))
    assert told.startswith("--components must be an integer")
    assert str(refusal.value).startswith("n_components must be an integer")


def test_a_warning_goes_to_the_nearest_collector():
    outer, inner = [], []
    with collected(outer.append):
        warn("one")
        with collected(inner.append):
            warn(RankWarning("two", numbers={"k": 1}, remedy=Remedy("n_components", 1)))
        with silenced():
            warn("three")
    assert [str(warning) for warning in outer] == ["one"]
    finding = Finding.of(inner[0])
    assert finding == Finding("rank", "two", {"k": 1}, Remedy("n_components", 1))
    with pytest.warns(RankWarning, match="four"):
        warn("four", RankWarning)
