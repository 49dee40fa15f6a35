"""Requests that no page sends, files that no program writes: refused in words, and the server goes on."""

import http.client
import os
import socket
import zipfile
from contextlib import closing, contextmanager, suppress

import httpx
import numpy as np
import pytest

import mercer
from mercer.app.explore import Dataset
from mercer.data import files
from mercer.data.formats import FORMATS, open_table
from mercer.web import server, session

SECONDS = 300  # what has not happened by then never will
JSON = "application/json"


@pytest.fixture(scope="module")
def page():
    with mercer.explore("circles", browser=False) as page:
        yield page


@pytest.fixture
def client(page):
    with visiting(page) as client:
        yield client


@contextmanager
def visiting(page):
    with httpx.Client(base_url=page.url.partition("/?")[0], timeout=SECONDS) as client:
        assert client.get(page.url).status_code == 200
        yield client


def head_of(page, *lines):
    own = f"Host: 127.0.0.1:{page.guard.port}", f"Cookie: {page.guard.cookie}={page.guard.token}"
    return "\r\n".join(["POST /api/state HTTP/1.1", *own, f"Content-Type: {JSON}", *lines, "", ""])


def status(page, request):
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        line.sendall(request.encode("latin-1"))
        with closing(http.client.HTTPResponse(line)) as answer:
            answer.begin()
            return answer.status


# ── the line ────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "length", ["-1", "abc", "1e9", "0x10", "+2", "2\r\nContent-Length: 3", "\xb2", "9" * 30]
)
def test_a_length_that_is_none_is_refused(page, client, length):
    assert status(page, head_of(page, f"Content-Length: {length}") + "{}") in (400, 413)
    assert client.post("/api/state", json={}).status_code == 200


def test_a_head_without_end_is_refused(page, client):
    assert status(page, head_of(page, "X: " + "a" * 200_000)) == 400
    assert client.post("/api/state", json={}).status_code == 200


def test_half_a_request_does_not_keep_its_place(monkeypatch):
    with mercer.explore("moons", browser=False) as page:
        monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
        for begun in (b"", b"POST /api/state HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\n\r\nGET /"):
            with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
                line.sendall(begun)
                while line.recv(4096):  # what was asked for; then the end, or the test ends here
                    pass
        monkeypatch.setattr(server, "HEAD_SECONDS", float(SECONDS))  # a whole one may take its time
        with visiting(page) as client:
            assert client.post("/api/state", json={}).status_code == 200


def test_a_body_that_is_broken_off_is_no_failure(page, client, caplog):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
            line.sendall(head_of(page, "Content-Length: 100").encode() + b"{")
    for chunk in ("ZZ\r\n{}\r\n0\r\n\r\n", "5\r\n{}\r\n0\r\n\r\n"):
        assert status(page, head_of(page, "Transfer-Encoding: chunked") + chunk) >= 400
    assert client.post("/api/state", json={}).status_code == 200
    assert not [r for r in caplog.records if r.name == "mercer.explore"]


# ── values ──────────────────────────────────────────────────────────────────
NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1",
    "10" + "0" * 30,
    "true",
    "[0]",
    '{"a": 1}',
)


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize(
    ("question", "body"),
    [
        ("fit", '"recipe": {"components": %s}'),
        ("fit", '"quality": %s'),
        ("row", '"row": %s'),
        ("walk", '"component": %s'),
        ("walk", '"steps": %s'),
        ("separate", '"components": [%s]'),
        ("rows", '"color": {"column": %s}'),
        ("rows", '"scale": %s'),
        ("save", '"what": %s'),
        ("save", '"what": "selection", "rows": [%s]'),
        ("save", '"what": "picture", "picture": %s'),
        ("save", '"what": "picture", "format": %s'),
        ("select", '"kernels": [%s]'),
        ("select", '"kernels": ["rbf"], "components": [%s]'),
        ("reread", '"image_shape": [%s, 1]'),
        ("open", '"builtin": %s'),
    ],
)
def test_a_value_that_can_not_be_meant_is_never_a_failure(client, question, body, value):
    text = f'{{"table": "t1", {body % value}}}'
    reply = client.post(f"/api/{question}", content=text, headers={"content-type": JSON})
    whole = (
        value.startswith("10") and '"components"' in body and question != "select"
    )  # all there are
    assert reply.status_code in ({200} if whole else {404, 422}), reply.text[:300]


@pytest.mark.filterwarnings("ignore:overflow")  # NumPy's, beside the refusal
@pytest.mark.parametrize(
    "kernel",
    [
        "rbf(gamma=nan)",
        "rbf(gamma=1e400)",
        "rbf(gamma=-0.0)",
        "poly(degree=999999999)",
        "poly(degree=400, gamma=1e10)",
        "1e308*rbf + 1e308*rbf",
        "0*rbf",
        "__import__('os').system('id')",
        "rbf.__class__",
        "rbf(gamma=(lambda: 1)())",
        "rbf\0",
        "\u202erbf",
        "rbf" + "*rbf" * 500,
    ],
)
def test_a_kernel_that_is_none_is_refused_in_words(client, kernel):
    body = {"table": "t1", "recipe": {"kernel": kernel}, "panels": {"scores": {}}}
    reply = client.post("/api/fit", json=body)
    assert reply.status_code == 422
    assert len(reply.json()["error"]["message"]) > 20


# ── files ───────────────────────────────────────────────────────────────────
def upload(client, name, content):
    kind = {"content-type": "application/octet-stream"}
    return client.post("/api/upload", params={"name": name}, content=content, headers=kind)


@pytest.mark.parametrize(
    "name",
    [
        "數據.csv",
        "a\u202e.csv",
        "\U0001f600.csv",
        "x" * 300 + ".csv",
        "CON.csv",
        "a\0b.csv",
        "$(id).CSV",
    ],
)
def test_a_name_of_any_letters_is_a_name(page, client, name):
    told = upload(client, name, b"a,b\n1,2\n3,5\n4,4\n").json()["table"]
    path = page.session.tables[told["id"]].path
    assert path.parent.parent == page.session.folder
    assert path.name == path.name.strip() != ""
    assert told["n"] == 3


def test_a_model_file_that_was_changed_anywhere_is_not_opened(page, client, tmp_path, rng):
    model = mercer.KernelPCA(2, kernel="rbf(gamma=0.3)").fit(rng.standard_normal((20, 3)))
    model.save(tmp_path / "m.mercer")
    whole = (tmp_path / "m.mercer").read_bytes()
    for place in rng.choice(len(whole), 60, replace=False):
        forged = bytearray(whole)
        forged[place] ^= 1 << int(rng.integers(8))
        assert upload(client, "m.mercer", bytes(forged)).status_code == 422
    for cut in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        assert upload(client, "m.mercer", whole[:cut]).status_code == 422
    assert not page.session.models
    assert upload(client, "m.mercer", whole).status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10**12, 10**6)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 2)}",
        "__import__('os').system('id')",
        "(" * 5000,
    ],
)
def test_an_array_whose_head_was_forged_is_not_read(client, head):
    padded = head.encode() + b" " * (-(len(head) + 11) % 64) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(48)
    assert upload(client, "x.npy", content).status_code == 422


ZEROS = np.zeros((200_000, 4))  # 6.4 MB, in far fewer bytes


def arrow_table():
    return pytest.importorskip("pyarrow").table(dict(zip("abcd", ZEROS.T, strict=True)))


def packed_parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow_table(), path)


def packed_arrow(path, begun=None):
    ipc = pytest.importorskip("pyarrow.ipc")
    table = arrow_table()
    options = ipc.IpcWriteOptions(compression="zstd")
    with (begun or ipc.new_file)(str(path), table.schema, options=options) as file:
        file.write_table(table)


def packed_hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=ZEROS, chunks=(100_000, 4), compression="gzip")


def packed_workbook(path):
    """One wide row, and short ones that are as wide: a row of 20 bytes is read as 2000 fields."""
    cell = '<c t="inlineStr"><is><t>a{}</t></is></c>'
    head = "".join(cell.format(j) for j in range(2000))
    sheet = f"<row>{head}</row>" + "<row><c><v>1</v></c></row>" * 3000
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    whole = f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
    parts["xl/worksheets/sheet1.xml"] = whole.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in parts.items():
            book.writestr(name, content)


def workbook_of_texts(path):
    """Texts that no cell shows, and that a reader holds all the same."""
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/more.xml", bytes(8 * 10**6))


PACKED = {
    "npz": lambda path: np.savez_compressed(path, rows=ZEROS),
    "parquet": packed_parquet,
    "arrow": packed_arrow,
    "arrow, a stream": lambda path: packed_arrow(
        path, pytest.importorskip("pyarrow.ipc").new_stream
    ),
    "hdf5": packed_hdf5,
    "h5ad": packed_hdf5,
    "excel": packed_workbook,
}


def test_every_format_of_one_file_that_packs_its_rows_is_tried_here():
    plain = {"csv", "tsv", "npy", "images"}  # whose rows take about the bytes of their files
    assert {name.partition(",")[0] for name in PACKED} == set(FORMATS) - plain


def test_a_workbook_that_would_unpack_to_far_more_is_not_opened(
    client, page, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "HELD_BYTES", 2**20)
    path = tmp_path / "rows.xlsx"
    workbook_of_texts(path)
    before = len(page.session.tables)
    reply = upload(client, path.name, path.read_bytes())
    assert reply.status_code == 422, reply.text[:300]
    assert "promises rows of" in reply.json()["error"]["message"]
    assert "mercer fit" in reply.json()["error"]["message"]
    assert len(page.session.tables) == before


@pytest.mark.parametrize("name", PACKED)
def test_a_file_that_would_unpack_to_far_more_is_not_read(
    client, page, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(files, "HELD_BYTES", 2**20)
    form = FORMATS[name.partition(",")[0]]
    path = tmp_path / f"rows{form.endings[0]}"
    PACKED[name](path)
    before = len(page.session.tables)
    reply = upload(client, path.name, path.read_bytes())
    assert reply.status_code == 422, reply.text[:300]
    said = reply.json()["error"]["message"]
    assert "promises rows of" in said or "would unpack to" in said
    assert len(page.session.tables) == before


@pytest.mark.parametrize("name", sorted(set(PACKED) - {"npz"}))  # which is not read in blocks
def test_a_packed_file_is_read_a_block_at_a_time_elsewhere(tmp_path, monkeypatch, name):
    """Where memory is bounded whatever a file holds, rows that pack well are rows as all others."""
    for limit in ("HARMLESS_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(files, limit, 2**20)
    path = tmp_path / f"rows{FORMATS[name.partition(',')[0]].endings[0]}"
    PACKED[name](path)
    table = open_table(path)
    rows = sum(len(chunk) for chunk in table.chunks(4096))
    assert rows * len(table.columns) * 8 > 250 * path.stat().st_size
    assert name == "excel" or rows == len(ZEROS)


def test_a_file_that_changes_or_goes_away_is_noticed(tmp_path, rng):
    path = tmp_path / "rows.csv"
    rows = "".join(f"{a:.3f},{b:.3f}\n" for a, b in rng.standard_normal((50, 2)))
    path.write_text(f"a,b\n{rows}")
    with mercer.explore(path, browser=False) as page, visiting(page) as client:
        path.write_text("a,b\n1,2\n3,4\n5,7\n")
        asked = {"table": "t1", "recipe": {"scale": "standard"}, "panels": {"scores": {}}}
        reply = client.post("/api/fit", json=asked)
        assert reply.status_code == 422
        assert "has changed since it was opened" in reply.json()["error"]["message"]
        path.unlink()
        assert client.post("/api/save", json={"table": "t1", "what": "data"}).status_code == 422
        state = client.post("/api/state", json={})  # the page still comes, with all that is open
        assert state.status_code == 200
        assert state.json()["tables"][0]["n"] == 50


def test_rows_that_were_read_stay_as_they_were(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.standard_normal((40, 3)))
    data = Dataset(tmp_path / "x.npy")
    before = np.array(data.raw.rows)
    np.save(tmp_path / "other.npy", np.zeros((40, 3)))
    os.replace(tmp_path / "other.npy", tmp_path / "x.npy")
    assert np.array_equal(data.raw.rows, before)
    with pytest.raises(mercer.errors.DataError, match=r"x\.npy has changed"):
        data.sheet("standard")


def test_all_files_together_have_a_limit_which_a_closed_table_frees(monkeypatch):
    monkeypatch.setattr(session, "MOST_BYTES", 50_000)
    content = b"a,b\n" + b"1,2\n3,5\n" * 2500  # 20 kB
    with mercer.explore("circles", browser=False) as page, visiting(page) as client:
        tables = [upload(client, "x.csv", content).json()["table"]["id"] for _ in range(2)]
        with suppress(httpx.TransportError):  # the line may be cut before the answer is read
            refused = upload(client, "x.csv", content)
            assert refused.status_code == 413
            assert "together" in refused.json()["error"]["message"]
        assert len(client.post("/api/state", json={}).json()["tables"]) == 3
        assert client.post("/api/close", json={"table": tables[0]}).status_code == 200
        assert upload(client, "x.csv", content).status_code == 200


def test_files_of_models_that_are_let_go_are_taken_away(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "MOST_MODELS", 1)
    mercer.PCA(1).fit(np.array([[0.0, 1.0], [2.0, 1.5], [5.0, 9.0]])).save(tmp_path / "m.mercer")
    whole = (tmp_path / "m.mercer").read_bytes()
    with mercer.explore("circles", browser=False) as page, visiting(page) as client:
        for _ in range(3):
            assert upload(client, "m.mercer", whole).status_code == 200
        assert len([*page.session.folder.rglob("m.mercer")]) == 1
