"""Rows into files: read again they are the same to the last bit, and a failure leaves what was there."""

import errno
import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer._core.atomic import written_whole
from mercer._core.errors import InputError
from mercer.data.formats import open_table
from mercer.data.table import Chunk, Reading
from mercer.data.writers import SUFFIXES, open_writer

FORMATS = ["csv", "tsv", "npz", "parquet", "arrow"]
NAMES = ["kpca0", "kpca1"]
IDS = ["007", " blank", 'quote "', "comma, and\nline", "Ünïcödé", "=1+1", ""]
LABELS = ["<script>", "b", "NA", "1", "2.5", "-", "z"]


@pytest.fixture
def scores(rng):
    values = rng.standard_normal((7, 2)) * 10.0 ** rng.integers(-300, 300, (7, 2))
    values[0] = [0.1, -0.0]
    values[1] = [5e-324, 1.7976931348623157e308]
    return values


def write(path, rows, ids=IDS, labels=LABELS, **kwargs):
    options = {"id_name": "id", "label_name": "label", "dtype": rows.dtype} | kwargs
    with open_writer(path, NAMES, **options) as writer:
        writer.write(rows[:3], ids[:3], labels[:3])
        writer.write(rows[3:], ids[3:], labels[3:])
    return writer


def read(path, **kwargs):
    reading = {} if path.suffix == ".npz" else {"id": "id", "label": "label"}
    chunks = list(open_table(path, Reading(**reading, **kwargs)).chunks(100))
    numbers, ids, labels = (
        np.concatenate([getattr(chunk, part) for chunk in chunks])
        for part in ("numbers", "ids", "labels")
    )
    return Chunk(0, numbers, {}, ids, labels)


@pytest.mark.parametrize("ending", FORMATS)
def test_what_was_written_is_read_again_to_the_last_bit(ending, scores, tmp_path):
    path = tmp_path / f"t.{ending}"
    assert write(path, scores).n_rows == 7
    chunk = read(path)
    assert chunk.numbers.tobytes() == scores.tobytes()
    assert (list(chunk.ids), list(chunk.labels)) == (IDS, LABELS)


@pytest.mark.parametrize("ending", FORMATS)
def test_labels_that_are_true_or_false_are_written(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    with open_writer(path, ["x"], label_name="label") as writer:
        writer.write(np.ones((2, 1)), None, np.array([True, False]))
    reading = Reading() if ending == "npz" else Reading(label="label")
    (chunk,) = open_table(path, reading).chunks(10)
    assert list(map(str, chunk.labels)) == ["True", "False"]


@pytest.mark.parametrize("ending", FORMATS)
def test_float32_stays_float32(ending, rng, tmp_path):
    rows = rng.standard_normal((7, 2)).astype(np.float32)
    path = tmp_path / f"t.{ending}"
    write(path, rows)
    assert read(path, dtype="float32").numbers.tobytes() == rows.tobytes()
    if ending == "csv":  # and has no digits that a float32 never had, nor quotes
        assert path.read_text().splitlines()[1] == f'"007","<script>",{rows[0, 0]!s},{rows[0, 1]!s}'


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_words_come_back_whatever_they_are(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("words") / "t.csv"
    with open_writer(path, ["x"], id_name="id") as writer:
        writer.write(np.ones((len(words) + 1, 1)), [*words, "end"])
    (chunk,) = open_table(path, Reading(id="id", delimiter=",")).chunks(1000)
    assert list(chunk.ids) == [*words, "end"]


def test_others_read_what_we_write(scores, tmp_path):
    write(tmp_path / "t.csv", scores)
    write(tmp_path / "t.parquet", scores)
    write(tmp_path / "t.npz", scores)
    frame = pd.read_csv(tmp_path / "t.csv", dtype={"id": str})
    assert list(frame.columns) == ["id", "label", *NAMES]
    np.testing.assert_allclose(frame[NAMES], scores, rtol=1e-15)
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "t.parquet")[NAMES], scores)
    with np.load(tmp_path / "t.npz", allow_pickle=False) as archive:
        assert sorted(archive) == ["ids", "labels", "names", "rows"]
        np.testing.assert_array_equal(archive["rows"], scores)


def test_an_npy_file_of_unknown_height_is_a_plain_array_and_says_what_it_lacks(scores, tmp_path):
    writer = write(tmp_path / "t.npy", scores)
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), scores)
    assert "'id' and 'label' are not written" in writer.notes[0]


@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet", "arrow"])
def test_no_rows_are_a_file_too(ending, tmp_path):
    path = tmp_path / f"t.{ending}"
    with open_writer(path, NAMES, id_name="id"):
        pass
    ways = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}
    if ending in ways:
        assert list(ways[ending](path).columns) == ["id", *NAMES]
    else:
        found = np.load(path)
        assert (found if ending == "npy" else found["rows"]).shape == (0, 2)


def test_the_standard_output_gets_the_bytes_of_the_file(scores, tmp_path, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    write("-", scores)
    write(tmp_path / "t.csv", scores)
    assert out.buffer.getvalue() == (tmp_path / "t.csv").read_bytes()


def test_a_closed_pipe_is_told_to_the_caller():
    script = (
        "import numpy as np, sys\nfrom mercer.data.writers import open_writer\n"
        "try:\n"
        "    with open_writer('-', ['x']) as writer:\n"
        "        for _ in range(100): writer.write(np.ones((1000, 1)))\n"
        "except BrokenPipeError: sys.stderr.write('broken'); sys.stderr.flush()\n"
        "import os; os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b"broken"


# ── failures ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(ending, scores, tmp_path, monkeypatch):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=rf"t.{ending}' could not be written: No space left"
    ) as caught:
        write(path, scores)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_can_not_be_read_is_not_said_to_be_unwritten(tmp_path):
    with (
        pytest.raises(FileNotFoundError) as caught,
        open_writer(tmp_path / "t.csv", NAMES),
    ):
        (tmp_path / "input.npy").read_bytes()
    assert "could not be written" not in str(caught.value)
    assert os.listdir(tmp_path) == []


class Full(io.BytesIO):
    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_which_disk_is_full_is_told(scores, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Full()))
    with pytest.raises(OSError, match="No space left") as caught:
        write("-", scores)
    assert "temporary" not in str(caught.value)
    monkeypatch.setattr("mercer.data.writers.tempfile.TemporaryFile", lambda **_: Full())
    with pytest.raises(OSError, match=r"^The rows of an NPZ file .* temporary folder .*TMPDIR"):
        write(tmp_path / "t.npz", scores)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_the_old_file(scores, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")

    def interrupted():
        with open_writer(path, NAMES) as writer:
            writer.write(scores)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["t.csv"])


def test_a_link_stays_a_link(scores, tmp_path):
    (tmp_path / "file.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "file.csv")
    write(tmp_path / "link.csv", scores)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "file.csv").stat().st_size > 0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("t.xyz", r"ends in '.xyz'.*\.csv, .*\.parquet"),
        ("t", "'/.*t' has no extension.*parquet"),
        ("nowhere/t.csv", "nowhere/t.csv' could not be written: No such file"),
        ("folder.csv", "could not be written: it is a folder, a device or a pipe; a plain file is"),
    ],
)
def test_a_place_that_can_not_be_written_is_refused_before_any_work(path, said, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises((InputError, OSError), match=said), open_writer(tmp_path / path, NAMES):
        pytest.fail("it was opened")


def test_a_file_that_cant_be_written_is_named_as_it_was_asked_for(tmp_path):
    path = tmp_path / "nowhere" / "r.html"
    with pytest.raises(FileNotFoundError) as caught, written_whole(path):
        pytest.fail("it was opened")
    assert caught.value.filename == str(path)


def test_rows_that_do_not_fit_their_columns_are_refused(tmp_path):
    with (
        pytest.raises(InputError, match=r"rows must be of 2 columns; got \(2, 3\)"),
        open_writer(tmp_path / "t.csv", NAMES) as writer,
    ):
        writer.write(np.ones((2, 3)))
    with (
        pytest.raises(InputError, match="ids must be one for each of 2 rows; got '1'"),
        open_writer(tmp_path / "t.csv", NAMES, id_name="id") as writer,
    ):
        writer.write(np.ones((2, 2)), ["one"])
    with (
        pytest.raises(InputError, match="has two columns named 'kpca0'"),
        open_writer(tmp_path / "t.csv", NAMES, id_name="kpca0"),
    ):
        pytest.fail("it was opened")
    assert os.listdir(tmp_path) == []


def test_every_format_that_is_written_has_an_ending_that_is_read():
    from mercer.data.writers import FORMATS

    assert set(SUFFIXES.values()) == set(FORMATS)


# ── what stands where a file is to go ───────────────────────────────────────
def test_a_file_takes_over_the_permissions_of_the_one_it_replaces(scores, tmp_path):
    path = tmp_path / "t.csv"
    path.touch(mode=0o600)
    write(path, scores)
    assert (path.stat().st_mode & 0o777, path.stat().st_size > 0) == (0o600, True)


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe"), written_whole(tmp_path / "pipe"):
        pytest.fail("it was opened")
    assert (tmp_path / "pipe").is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]
