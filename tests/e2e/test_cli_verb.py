"""What all verbs share: options and where they come from, talk, documents, endings."""

import errno
import json
import os
import subprocess
import sys
import warnings

import click
import pytest
from click.testing import CliRunner

from mercer._core.atomic import replacing
from mercer._core.errors import (
    DataError,
    KernelSyntaxError,
    MercerError,
    ModelFileError,
    ParameterError,
)
from mercer._core.findings import Finding
from mercer.app.outcome import plain
from mercer.app.rows import check_output
from mercer.cli.config import LARGEST_BYTES
from mercer.cli.ending import printable
from mercer.cli.main import LazyGroup, main
from mercer.cli.options import DELIMITER, NAMES, SIZE
from mercer.cli.progress import Terminal, shown
from mercer.cli.verb import verb


@verb("seed", "memory", example="mercer fit x")
@click.option("--kernel", default="rbf", help="Text.")
@click.option("--false-alarm", type=float, default=0.01)
@click.option("--columns", type=NAMES)
@click.option("--one-hot", is_flag=True)
@click.option("--weights", multiple=True)
def fit(call, **options):
    """Tell what came."""
    given = call.params
    assert options.items() <= given.items()
    call.tell(given, "\n".join(f"{name}={value!r}" for name, value in sorted(given.items())))


@verb(example="mercer info x")
@click.option("--depth", type=int, default=1)
def info(call, depth):
    """Tell another thing."""
    call.tell({"depth": depth}, f"{depth}")


WHAT = {}


@verb(example="mercer raises")
def raises(call):
    """Raise what the test wants."""
    call.say("begun")
    return WHAT["do"](call)


class Toy(LazyGroup):
    """A group of verbs that are here already."""

    def get_command(self, ctx, cmd_name):
        del ctx
        return {"fit": fit, "info": info, "raises": raises}.get(cmd_name)


toy = Toy(
    "mercer",
    verbs={"fit": "Tell.", "info": "Tell.", "raises": "Raise."},
    params=list(main.params),
    callback=main.callback,
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A call in an empty folder, without anybody's MERCER_ variables."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("MERCER_"):
            monkeypatch.delenv(name)
    return lambda *args, env=None, **options: CliRunner(env=env).invoke(toy, args, **options)


@pytest.fixture
def ending(run):
    """How `raises` ends when it does this."""

    def end(do, *args):
        WHAT["do"] = do
        return run("raises", *args)

    return end


def raising(error):
    def do(_talk):
        raise error

    return do


# ── where options come from ─────────────────────────────────────────────────
LADDER = ("default", "top of mercer.toml", "[fit]", "MERCER_KERNEL", "MERCER_FIT_KERNEL", "flag")


@pytest.mark.parametrize("rung", range(len(LADDER)), ids=LADDER)
def test_an_option_is_taken_from_the_highest_rung_that_has_it(run, tmp_path, rung):
    """Flag > MERCER_FIT_KERNEL > MERCER_KERNEL > [fit] > top > default: all rungs up to one are filled."""
    toml = ["", 'kernel = "top"', 'kernel = "top"\n[fit]\nkernel = "table"'][min(rung, 2)]
    (tmp_path / "mercer.toml").write_text(toml)
    env = {}
    if rung >= 3:
        env["MERCER_KERNEL"] = "wide"
    if rung >= 4:
        env["MERCER_FIT_KERNEL"] = "own"
    flags = ["--kernel", "flag"] if rung >= 5 else []
    found = json.loads(run("fit", "--json", *flags, env=env).stdout)["results"]["kernel"]
    assert found == ("rbf", "top", "table", "wide", "own", "flag")[rung]
    shown = json.loads(run("fit", "--json", "--show-config", *flags, env=env).stdout)
    origins = (
        "default",
        "mercer.toml",
        "mercer.toml [fit]",
        "MERCER_KERNEL",
        "MERCER_FIT_KERNEL",
        "flag",
    )
    assert shown["results"]["options"]["kernel"] == {"value": found, "origin": origins[rung]}


def test_types_of_a_file_reach_the_options(run, tmp_path):
    (tmp_path / "mercer.toml").write_text(
        'seed = 7\njson = true\n[fit]\nfalse_alarm = 0.5\ncolumns = ["a", "b,c"]\none-hot = true\n'
        'weights = ["u", "v"]\n[info]\ndepth = 3\n'
    )
    found = json.loads(run("fit").stdout)["results"]
    assert found["seed"] == 7
    assert found["false_alarm"] == 0.5
    assert found["columns"] == ["a", "b,c"]
    assert found["one_hot"] is True
    assert found["weights"] == ["u", "v"]
    assert json.loads(run("info").stdout)["results"] == {"depth": 3}


def test_a_pyproject_may_hold_the_options_and_mercer_toml_wins(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.mercer.fit]\nkernel = "shared"\n')
    assert "kernel='shared'" in run("fit").stdout
    (tmp_path / "mercer.toml").write_text('kernel = "own"')
    assert "kernel='own'" in run("fit").stdout


def test_a_pyproject_of_somebody_else_does_not_matter(run, tmp_path):
    for text in ("[tool.ruff]\nx = 1", "not toml ["):
        (tmp_path / "pyproject.toml").write_text(text)
        assert "kernel='rbf'" in run("fit").stdout


def test_a_file_of_options_can_be_named(run, tmp_path):
    (tmp_path / "other.toml").write_text('kernel = "named"')
    assert "kernel='named'" in run("--config", "other.toml", "fit").stdout
    assert "kernel='named'" in run("fit", env={"MERCER_CONFIG": "other.toml"}).stdout


WRONG = {
    "no TOML": ("kernel = ", "mercer.toml can't be read: it is not TOML"),
    "not UTF-8": (b"kernel = '\xff'", "it is not TOML"),
    "unknown key": ("kernle = 'x'", "Did you mean 'kernel'?"),
    "unknown key of a table": ("[fit]\nkernle = 'x'", "Did you mean 'kernel'?"),
    "verb that is no table": ("fit = 3", "no command has an option 'fit'"),
    "unknown verb": ("[fti]\nkernel = 'x'", "Did you mean 'fit'?"),
    "flag that is no truth value": ("[fit]\none-hot = 1", "must be true or false"),
    "number that is a truth value": ("seed = true", "must be a text or a number"),
    "list in place of one": ("kernel = ['a']", "not a list"),
    "date": ("kernel = 2026-01-01", "must be a text or a number"),
    "bad number": ("seed = 'x'", "It stands in mercer.toml."),
    "deep": ("kernel = " + "[" * 5000, "it is not TOML"),
    "endless": ("#" * (LARGEST_BYTES + 1), "a file of options has at most"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_of_options_is_a_usage_error_but_help_still_comes(run, tmp_path, text, said):
    (tmp_path / "mercer.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run("fit")
    assert result.exit_code == 2
    assert said in result.stderr
    assert run("fit", "--help").exit_code == 0


def test_a_file_of_options_that_is_not_there_is_a_usage_error(run):
    result = run("--config", "nowhere.toml", "fit")
    assert result.exit_code == 2
    assert "nowhere.toml can't be read: No such file" in result.stderr


def test_a_wrong_value_of_the_environment_says_which(run):
    result = run("fit", env={"MERCER_FIT_SEED": "minus one"})
    assert result.exit_code == 2
    assert "MERCER_FIT_SEED" in result.stderr


# ── types of options ────────────────────────────────────────────────────────
def test_names_sizes_and_delimiters():
    names = NAMES.convert
    assert names('a, "b,c" ,d', None, None) == ("a", "b,c", "d")
    assert SIZE.convert("64x48", None, None) == (64, 48)
    assert DELIMITER.convert("tab", None, None) == "\t"
    for convert, wrong in (
        (names, "a,,b"),
        (names, "a,a"),
        (names, ""),
        (SIZE.convert, "64"),
        (SIZE.convert, "0x3"),
        (DELIMITER.convert, ";;"),
    ):
        with pytest.raises(click.BadParameter):
            convert(wrong, None, None)


def test_a_size_that_is_none_is_a_usage_error(run):
    assert "memory='2GB'" in run("fit", "--memory", "2GB").stdout
    for wrong in ("much", "0", "-1GB"):
        result = run("fit", "--memory", wrong)
        assert result.exit_code == 2
        assert "4GB" in result.stderr


def test_a_seed_is_one_that_scikit_learn_takes_too(run):
    assert "seed=4294967295" in run("fit", "--seed", "4294967295").stdout
    for wrong in ("4294967296", "-1"):
        assert run("fit", "--seed", wrong).exit_code == 2


# ── talk and documents ──────────────────────────────────────────────────────
def test_stdout_has_the_document_alone_and_stderr_the_talk(ending):
    def do(call):
        call.note("3 values imputed")
        call.warn("careful\nnow")
        call.warn("careful now")
        warnings.warn("from the library", UserWarning, stacklevel=1)
        call.tell({"x": float("nan"), "y": [float("inf"), 1]}, "text")

    result = ending(do, "--json")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 1
    assert document["command"] == "raises"
    assert document["notes"] == ["3 values imputed"]
    assert document["warnings"] == ["careful now", "from the library"]
    assert [finding["level"] for finding in document["findings"]] == ["note", "warning", "warning"]
    assert document["results"] == {"x": None, "y": [None, 1]}
    assert document["timings"]["total"] >= 0
    assert result.stderr == "begun\n3 values imputed\n"
    people = ending(do, "--quiet")
    assert people.stdout == "text\n"
    assert people.stderr == "warning: careful now\nwarning: from the library\n"


def test_control_characters_do_not_reach_the_terminal():
    assert printable("a\x1b[31mb\nc\u202e\x07") == "a�[31mb\nc��"
    assert plain({"a": (1, float("nan"), None, True)}) == {"a": [1, None, None, True]}


# ── endings ─────────────────────────────────────────────────────────────────
ENDINGS = {
    "usage": (click.UsageError("no"), 2, "no"),
    "kernel": (KernelSyntaxError("bad\n  rbf(\n     ^"), 2, "  rbf(\n     ^"),
    "data": (DataError("row 3"), 3, "row 3"),
    "model": (ModelFileError("damaged"), 3, "damaged"),
    "failure": (MercerError("why"), 1, "why"),
    "file": (PermissionError(errno.EACCES, "Permission denied", "x.csv"), 3, "x.csv: Permission"),
    "full": (OSError(errno.ENOSPC, "No space left on device"), 1, "No file was changed."),
    "memory": (MemoryError(), 1, "not enough memory"),
    "unexpected": (TypeError("odd"), 1, "TypeError: odd. This was not foreseen"),
    "interrupted": (KeyboardInterrupt(), 130, "Interrupted."),
    "pipe": (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
}


@pytest.mark.parametrize(("error", "code", "said"), ENDINGS.values(), ids=ENDINGS)
def test_every_error_has_its_exit_code_and_no_traceback(ending, error, code, said):
    result = ending(raising(error))
    assert result.exit_code == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("error", "code", "said"), ENDINGS.values(), ids=ENDINGS)
def test_with_json_an_error_is_a_document_on_stderr(ending, error, code, said):
    del said
    result = ending(raising(error), "--json", "--quiet")
    told = json.loads(result.stderr)["error"]
    assert result.exit_code == told["exit_code"] == code
    assert result.stdout == ""


def test_json_that_the_environment_asks_for_holds_for_errors_too(run):
    WHAT["do"] = raising(DataError("row 3"))
    result = run("raises", "--quiet", env={"MERCER_JSON": "1"})
    assert json.loads(result.stderr)["error"]["kind"] == "data"


def test_debug_shows_the_traceback_and_keeps_the_exit_code(ending):
    result = ending(raising(DataError("row 3")), "--debug")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr


def test_a_verb_ends_with_the_code_that_it_returns(ending):
    assert ending(lambda _: 4).exit_code == 4
    assert ending(lambda _: None).exit_code == 0


def test_a_full_stdout_is_one_line_and_exit_code_1():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mercer", "completion", "fish"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: No space left on device. No file was changed.\n"


# ── where results go ────────────────────────────────────────────────────────
def test_an_output_is_looked_at_before_the_work(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(data)
    for output, said in (
        (data, "is the file that is read"),
        (tmp_path / "link.csv", "is the file that is read"),
        (tmp_path, "is a folder"),
        ("/dev/null", "is not a plain file"),
    ):
        with pytest.raises(ParameterError, match=said):
            check_output(str(output), [str(data)])
    with pytest.raises(OSError, match="folder does not exist"):
        check_output(str(tmp_path / "no" / "x.csv"), [])
    assert check_output(str(tmp_path / "x.csv"), [str(data), "-"]) == tmp_path / "x.csv"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "link.csv"]


def test_behind_a_link_the_file_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "file.png").write_bytes(b"old")
    link = tmp_path / "link.png"
    link.symlink_to(tmp_path / "file.png")
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert (tmp_path / "file.png").read_bytes() == b"new"


# ── progress ────────────────────────────────────────────────────────────────
class Screen:
    """A stderr that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return True


def steps(terminal):
    """Work of two stages, with notes on the way."""
    with shown(terminal):
        terminal.began("fit")
        terminal.step(5, 9, "[products]", 1e-3)
        terminal.found(Finding("a", "a [note]", level="note"))
        terminal.found(Finding("b", "a column named \x1b]0;mine\x07", level="note"))


def test_progress_is_for_terminals_only(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    steps(Terminal("fit", as_json=False, quiet=False))
    assert capsys.readouterr().err == "a [note]\na column named �]0;mine�\n"


@pytest.mark.parametrize("rich", [True, False])
def test_on_a_terminal_the_line_of_the_fit_stands_and_talk_goes_above(rich, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    steps(Terminal("fit", as_json=False, quiet=False))
    assert sys.stderr is screen
    assert "a [note]" in screen.text
    assert "a column named �]0;mine" in screen.text  # obeyed by no terminal
    assert "\x1b[3" not in screen.text  # NO_COLOR
    if not rich:
        assert "fit: 5 of 9 [products], residual 1e-03" in screen.text
    assert not Terminal("fit", as_json=False, quiet=True).is_interactive


# ── completion ──────────────────────────────────────────────────────────────
def test_verbs_are_completed_without_importing_them(monkeypatch):
    from click.shell_completion import ShellComplete

    monkeypatch.setattr("mercer.cli.main.import_module", None)
    found = ShellComplete(main, {}, "mercer", "_MERCER_COMPLETE").get_completions([], "re")
    assert [item.value for item in found] == ["reconstruct", "report", "retrain"]
