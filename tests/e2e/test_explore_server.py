"""A real server on loopback: what a foreign page, a stranger or a broken file may not do, each a test."""

import http.client
import io
import itertools
import json
import socket
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pytest

import mercer
from mercer._core.errors import MercerError
from mercer.data.csv import table as csv_table
from mercer.data.excel import ExcelTable
from mercer.data.table import Chunk
from mercer.web import answers, launch, server
from mercer.web.packets import unpacked
from mercer.web.session import Session

SECONDS = 300  # what has not happened by then never will


@pytest.fixture(scope="module")
def page():
    with mercer.explore("circles", browser=False) as page:
        yield page


@pytest.fixture
def client(page):
    base = page.url.partition("/?")[0]
    with httpx.Client(base_url=base, timeout=SECONDS) as client:
        assert client.get(page.url).status_code == 200
        yield client


def code(reply):
    return reply.status_code, reply.json()["error"]["code"]


def upload(client, name, content):
    kind = {"content-type": "application/octet-stream"}
    return client.post("/api/upload", params={"name": name}, content=content, headers=kind)


# ── who may ask ─────────────────────────────────────────────────────────────
def test_the_address_with_its_token_lets_a_browser_in_and_the_cookie_keeps_it(page):
    base = page.url.partition("/?")[0]
    with httpx.Client(base_url=base) as client:
        assert client.get("/").status_code == 403
        assert client.get("/static/index.html").status_code == 403
        assert code(client.post("/api/state", json={})) == (403, "forbidden")
        assert client.get("/", params={"token": "x" * 43}).status_code == 403
        first = client.get(page.url)
        assert first.status_code == 200
        cookie = first.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict"))
        assert client.get("/").status_code == 200
        assert client.post("/api/state", json={}).json()["start"]["table"] == "t1"


def test_a_token_opens_the_page_and_no_question(page):
    base = page.url.partition("/?")[0]
    query = page.url.rpartition("?")[2]
    with httpx.Client(base_url=base) as client:
        assert client.post(f"/api/state?{query}", json={}).status_code == 403
        assert client.get(f"/static/index.html?{query}").status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:{port}",
        "",
        "127.0.0.1:{port}.x",
    ],
)
def test_a_foreign_host_is_refused(client, page, host):
    headers = {"host": host.format(port=page.guard.port)}
    assert code(client.post("/api/state", json={}, headers=headers)) == (403, "forbidden")
    assert client.get("/", headers=headers).status_code == 403


def test_a_host_that_is_named_twice_is_refused(page):
    own = f"127.0.0.1:{page.guard.port}"
    cookie = f"{page.guard.cookie}={page.guard.token}"
    request = (
        f"POST /api/state HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\nCookie: {cookie}\r\n"
    )
    request += "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        line.sendall(request.encode())
        status = line.recv(4096).split(b" ")[1]
    assert status in (b"400", b"403")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_a_foreign_origin_is_refused(client, page, origin):
    headers = {"origin": origin.format(port=page.guard.port)}
    assert code(client.post("/api/state", json={}, headers=headers)) == (403, "forbidden")


def test_the_pages_own_origin_is_welcome(client, page):
    headers = {"origin": f"http://127.0.0.1:{page.guard.port}", "sec-fetch-site": "same-origin"}
    assert client.post("/api/state", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_of_another_site_is_refused(client, site):
    reply = client.post("/api/state", json={}, headers={"sec-fetch-site": site})
    assert code(reply) == (403, "forbidden")


@pytest.mark.parametrize("question", ["state", "shutdown", "save", "upload"])
@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""],
)
def test_a_form_of_another_page_does_nothing(client, question, kind):
    """The three kinds that a form can send without being asked, and none at all."""
    headers = {"content-type": kind} if kind else {}
    reply = client.post(f"/api/{question}", content=b'{"a": "=1"}', headers=headers)
    assert code(reply) == (415, "media-type")
    assert client.post("/api/state", json={}).status_code == 200  # it still runs


def test_every_answer_forbids_inline_code_frames_and_sniffing_and_allows_no_other_origin(client):
    replies = [
        client.get("/"),
        client.post("/api/state", json={}),
        client.post("/api/nonsense", json={}),
        client.get("/static/index.html"),
        client.options("/api/state", headers={"access-control-request-method": "POST"}),
        client.get("/", headers={"host": "evil.example"}),
    ]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in reply.headers if name.startswith("access-control-")]
    assert replies[4].status_code == 405


def test_questions_are_not_asked_by_an_address(client):
    assert client.get("/api/state").status_code == 405
    assert client.get("/api/shutdown").status_code == 405


# ── paths ───────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py",
        "/static/%2e%2e/guard.py",
        "/static/..%2fguard.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/static//etc/passwd",
        "/static/....//guard.py",
        "/static/..%5cguard.py",
        "/static/index.html%00.js",
        "/guard.py",
    ],
)
def test_no_path_leads_out_of_the_static_files(page, path):
    line = http.client.HTTPConnection("127.0.0.1", page.guard.port, timeout=SECONDS)
    line.putrequest("GET", path, skip_host=True)  # as it is: a client would tidy it up
    line.putheader("Host", f"127.0.0.1:{page.guard.port}")
    line.putheader("Cookie", f"{page.guard.cookie}={page.guard.token}")
    line.endheaders()
    reply = line.getresponse()
    body = reply.read()
    line.close()
    assert reply.status in (400, 404, 405)
    assert b"LOOPBACK" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("name", ["../../x.csv", "..\\..\\x.csv", "/tmp/x.csv", "%2e%2e%2fx.csv"])
def test_the_name_of_an_upload_is_no_path(client, page, name, tmp_path):
    before = set(tmp_path.parent.iterdir())
    reply = upload(client, name, b"a,b\n1,2\n3,5\n4,4\n")
    assert reply.status_code == 200
    table = page.session.tables[reply.json()["table"]["id"]]
    assert page.session.folder in table.path.resolve().parents
    assert set(tmp_path.parent.iterdir()) == before


def test_nothing_in_a_question_is_a_path(client):
    for body in ({"table": "../../etc/passwd"}, {"table": ["t1"]}, {"table": None}):
        assert code(client.post("/api/rows", json=body)) == (404, "not-found")
    bad = {"table": "t1", "recipe": {"model": "/etc/passwd"}}
    assert code(client.post("/api/fit", json=bad)) == (404, "not-found")


# ── sizes ───────────────────────────────────────────────────────────────────
def test_an_upload_of_two_gigabytes_is_refused_before_it_is_sent(page):
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        head = f"POST /api/upload?name=x.csv HTTP/1.1\r\nHost: 127.0.0.1:{page.guard.port}\r\n"
        head += f"Cookie: {page.guard.cookie}={page.guard.token}\r\nContent-Length: {2 * 2**30}\r\n"
        line.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode())
        assert line.recv(4096).split(b" ")[1] == b"413"


def test_an_upload_that_hides_its_length_ends_at_the_limit(client, page, monkeypatch):
    monkeypatch.setattr(server, "UPLOAD_BYTES", 10_000)

    def pieces():
        for _ in range(1000):
            yield b"1,2,3\n" * 1000

    with suppress(httpx.HTTPError):  # the line may be cut before the answer is read
        assert code(upload(client, "x.csv", pieces())) == (413, "too-large")
    held = sum(f.stat().st_size for f in page.session.folder.rglob("x.csv"))
    assert held < 100_000
    assert client.post("/api/state", json={}).status_code == 200


@pytest.fixture
def folders(page):
    """The folders of the session's files, as they are whenever this is called."""
    return lambda: sorted(each.name for each in page.session.folder.iterdir())


def test_of_an_upload_that_fails_nothing_stays(client, page, folders, monkeypatch):
    before = folders()
    monkeypatch.setattr(server, "UPLOAD_BYTES", 1000)
    with suppress(httpx.TransportError):  # the line may be cut before all is sent
        upload(client, "long.csv", (b"1,2\n" * 100 for _ in range(10)))
    assert eventually(lambda: folders() == before)
    assert code(upload(client, "broken.npy", b"nothing"))[0] == 422
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        head = f"POST /api/upload?name=x.csv HTTP/1.1\r\nHost: 127.0.0.1:{page.guard.port}\r\n"
        head += f"Cookie: {page.guard.cookie}={page.guard.token}\r\nContent-Length: 900\r\n"
        line.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n1,2\n".encode())
        assert eventually(lambda: folders() != before)
    assert eventually(lambda: folders() == before)


def test_a_table_that_is_closed_takes_its_file_along_unless_another_reads_it(client, folders):
    before = folders()
    table = upload(client, "x.csv", b"a,b\n1,2\n3,5\n4,4\n").json()["table"]["id"]
    again = client.post("/api/reread", json={"table": table, "columns": ["a"]}).json()["id"]
    assert client.post("/api/close", json={"table": table}).status_code == 200
    assert folders() != before
    assert client.post("/api/row", json={"table": again, "row": 0}).status_code == 200
    assert client.post("/api/close", json={"table": again}).status_code == 200
    assert folders() == before


def eventually(happens):
    until = time.monotonic() + SECONDS
    while not (happened := happens()) and time.monotonic() < until:
        time.sleep(0.01)
    return happened


def test_a_question_has_a_longest_length(client, monkeypatch):
    monkeypatch.setattr(server, "MOST_BODY", 1000)
    reply = client.post("/api/state", json={"x": "y" * 2000})
    assert code(reply) == (413, "too-large")


def test_an_archive_that_would_fill_the_memory_is_not_opened(client):
    file = io.BytesIO()
    head = io.BytesIO()
    n = 5 * 10**7  # 400 MB of zeros in less than one
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (n // 2, 2)}
    )
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("rows.npy", "w", force_zip64=True) as inside,
    ):
        inside.write(head.getvalue())
        for _ in range(50):
            inside.write(bytes(8 * 10**6))
    reply = upload(client, "bomb.npz", file.getvalue())
    assert code(reply) == (422, "refused")
    assert "would unpack to" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.exe", b"MZ"),
        ("x", b"1,2"),
        ("model.pkl", b"\x80\x04N."),
        ("x.mercer", b"\x80\x04N."),
        ("x.npy", b"\x93NUMPY\x01\x00"),
        ("x.csv", b""),
        ("x.csv", b"a,b\n1,2\n"),
        ("x.parquet", b"PAR1PAR1"),
        ("x.xlsx", b"PK\x03\x04"),
    ],
    ids=["exe", "none", "pickle", "model", "npy", "empty", "one row", "parquet", "excel"],
)
def test_a_file_that_can_not_be_read_is_told_so(client, page, name, content):
    before = len(page.session.tables)
    reply = upload(client, name, content)
    assert code(reply) == (422, "refused")
    told = reply.json()["error"]["message"]
    assert str(page.session.folder) not in told
    assert len(page.session.tables) == before


def test_objects_in_an_array_are_never_unpickled(client):
    file = io.BytesIO()
    np.save(file, np.array([print, "x"], dtype=object), allow_pickle=True)
    assert code(upload(client, "x.npy", file.getvalue())) == (422, "refused")


# ── texts ───────────────────────────────────────────────────────────────────
SCRIPT = "<script>alert(1)</script>"


def test_scripts_in_labels_and_names_stay_texts(client):
    rows = "".join(f"{i},{i * i % 7},{SCRIPT}{i % 2}\n" for i in range(12))
    reply = upload(
        client, f"{SCRIPT}.csv", f"x,<img src=x onerror=alert(1)>,label\n{rows}".encode()
    )
    table = reply.json()["table"]
    assert reply.headers["content-type"] == "application/json"
    assert table["classes"]["names"] == [f"{SCRIPT}0", f"{SCRIPT}1"]
    assert table["features"][1] == "<img src=x onerror=alert(1)>"
    body = {"table": table["id"], "recipe": {"kind": "pca", "components": 2}}
    saved = client.post("/api/save", json={**body, "what": "report"})
    assert saved.status_code == 200
    assert SCRIPT not in saved.text
    assert "<img src=x" not in saved.text
    assert saved.headers["content-disposition"].startswith("attachment")
    picture = client.post("/api/save", json={**body, "what": "picture", "format": "svg"})
    assert SCRIPT not in picture.text


@pytest.mark.parametrize(
    "text", ["(" * 10_000, "(" * 5000 + "rbf" + ")" * 5000, "rbf+" * 10_000, "-" * 10_000]
)
def test_an_expression_of_ten_thousand_brackets_is_refused_in_words(client, text):
    wrong = client.post("/api/kernel", json={"text": text}).json()["wrong"]
    assert wrong["code"] == "refused"
    reply = client.post("/api/check", json={"kernel": text})
    assert code(reply) == (422, "refused")
    for error in (wrong, reply.json()["error"]):
        assert 20 < len(error["message"]) < 2000
    body = {"table": "t1", "recipe": {"kernel": text}}
    assert code(client.post("/api/fit", json=body)) == (422, "refused")


@pytest.mark.parametrize(
    "body", [b"{", b"[" * 100_000, b"\xff\xfe", b"[]", b'"x"', b"NaN", b'{"client": 3}']
)
def test_what_is_not_a_question_is_refused(client, body):
    reply = client.post("/api/state", content=body, headers={"content-type": "application/json"})
    assert code(reply) == (422, "refused")


def test_a_place_in_an_expression_is_pointed_at(client):
    reply = client.post("/api/kernel", json={"text": "rbf(gama=2)"})
    assert reply.json()["wrong"]["at"] == [4, 8]


# ── crowds ──────────────────────────────────────────────────────────────────
def fitting(client, tab, generation, gamma):
    body = {
        "client": tab,
        "generation": generation,
        "table": "t1",
        "recipe": {"kernel": f"rbf(gamma={gamma})", "components": 3},
        "quality": "drag",
        "panels": {"scores": {"components": [0, 1]}},
    }
    return client.post("/api/fit", json=body)


def test_two_hundred_requests_at_once_are_all_answered_and_the_newest_is_right(client, page):
    with ThreadPoolExecutor(40) as pool:
        replies = list(pool.map(lambda i: fitting(client, "crowd", i, 1 + i / 100), range(1, 201)))
    assert {reply.status_code for reply in replies} <= {200, 409, 429}
    last = fitting(client, "crowd", 1000, 2.5)
    header, arrays = unpacked(last.content)
    assert header["fit"]["kernel"] == "RBF(gamma=2.5)"
    assert arrays["scores"].shape == (400, 2)
    assert not page.session.desk._jobs


def test_two_tabs_have_their_own_newest(client):
    assert fitting(client, "one", 50, 1.5).status_code == 200
    assert fitting(client, "two", 1, 1.6).status_code == 200
    assert code(fitting(client, "one", 49, 1.7)) == (409, "superseded")


class Waiting:
    """A question that goes on until it is stopped."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, ask):
        self.begun.set()
        ask.job.began("fit")
        stopped = ask.job.cancelled.wait(SECONDS)
        self.ended.set()
        ask.job.check()
        return {"stopped": stopped}


def test_a_client_that_goes_away_stops_its_work(page, client, monkeypatch):
    waiting = Waiting()
    monkeypatch.setitem(answers.QUESTIONS, "fit", answers.Question(waiting, fits=True))
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        head = (
            f"POST /api/fit HTTP/1.1\r\nHost: 127.0.0.1:{page.guard.port}\r\nContent-Length: 2\r\n"
        )
        head += f"Cookie: {page.guard.cookie}={page.guard.token}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\n\r\n{{}}".encode())
        assert waiting.begun.wait(SECONDS)
    assert waiting.ended.wait(SECONDS)  # long before it would end by itself
    assert client.post("/api/state", json={}).status_code == 200


def test_a_fit_is_stopped_from_the_page_that_asked_for_it(client, monkeypatch):
    waiting = Waiting()
    monkeypatch.setitem(answers.QUESTIONS, "fit", answers.Question(waiting, fits=True))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fitting, client, "mine", 1, 2.0)
        assert waiting.begun.wait(SECONDS)
        assert client.post("/api/progress", json={"client": "mine"}).json()["running"] is True
        assert client.post("/api/stop", json={"client": "another"}).json() == {"stopped": 0}
        assert not running.done()
        assert client.post("/api/stop", json={"client": "mine"}).json() == {"stopped": 1}
        assert code(running.result(SECONDS)) == (409, "stopped")
    assert client.post("/api/progress", json={"client": "mine"}).json() == {"running": False}


def test_a_stop_arrives_while_all_helpers_are_busy(client, monkeypatch):
    waiting = [Waiting() for _ in range(3)]
    names = ("walk", "importance", "back")
    for name, each in zip(names, waiting, strict=True):
        monkeypatch.setitem(answers.QUESTIONS, name, answers.Question(each))
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(client.post, f"/api/{name}", json={"client": "x"}) for name in names]
        assert all(each.begun.wait(SECONDS) for each in waiting)
        assert client.post("/api/stop", json={"client": "x"}).json() == {"stopped": 3}
        assert {code(each.result(SECONDS)) for each in asked} == {(409, "stopped")}


def test_what_was_not_foreseen_is_said_without_its_details(client, monkeypatch):
    def broken(*_unused):
        msg = "secret of the machine"
        raise RuntimeError(msg)

    monkeypatch.setitem(answers.QUESTIONS, "row", answers.Question(broken))
    reply = client.post("/api/row", json={})
    assert code(reply) == (500, "failed")
    assert "secret" not in reply.text


# ── reading that takes long ─────────────────────────────────────────────────
class Endless:
    """The rows of a workbook that has no end, and whether anybody reads them."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    @contextmanager
    def opened(self):
        try:
            yield self._rows()
        finally:
            if self.begun.is_set():  # a look at the first rows ends before
                self.ended.set()

    def _rows(self):
        for i in itertools.count():
            if i == 10**6:
                self.begun.set()
            yield (1.0, float(i % 7))


@pytest.mark.parametrize("question", ["upload", "reread"])
def test_nothing_is_read_on_once_the_client_has_gone(client, page, monkeypatch, question):
    pytest.importorskip("openpyxl")
    rows = Endless()
    if question == "reread":
        table = upload(client, "x.csv", b"a,b\n1,2\n3,5\n4,4\n").json()["table"]["id"]
        monkeypatch.setattr(csv_table.CsvTable, "_chunks", lambda *_: chunks_of(rows))
        body = json.dumps({"table": table, "columns": ["a"]}).encode()
        head = "POST /api/reread HTTP/1.1\r\nContent-Type: application/json\r\n"
    else:
        monkeypatch.setattr(ExcelTable, "_rows", lambda _: rows.opened())
        body = b"PK\x03\x04"
        head = "POST /api/upload?name=x.xlsx HTTP/1.1\r\nContent-Type: application/octet-stream\r\n"
    head += (
        f"Host: 127.0.0.1:{page.guard.port}\r\nCookie: {page.guard.cookie}={page.guard.token}\r\n"
    )
    with socket.create_connection(("127.0.0.1", page.guard.port), timeout=SECONDS) as line:
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert rows.begun.wait(SECONDS)
    assert rows.ended.wait(SECONDS)


def chunks_of(rows):
    """The same as chunks of a table."""
    with rows.opened() as endless:
        for _ in endless:
            yield Chunk(0, np.ones((2, 1)), {})


# ── life ────────────────────────────────────────────────────────────────────
def test_the_button_of_the_page_ends_the_server_and_takes_its_files_away():
    page = mercer.explore("moons", browser=False)
    folder = page.session.folder
    with httpx.Client() as client:
        client.get(page.url)
        base = page.url.partition("/?")[0]
        assert "stopped" in client.post(f"{base}/api/shutdown", json={}).json()["words"]
    page._thread.join(SECONDS)
    assert not page._thread.is_alive()
    assert not folder.exists()
    with pytest.raises(OSError):  # noqa: PT011  (whatever the system calls it)
        socket.create_connection(("127.0.0.1", page.guard.port), timeout=2)


def test_a_model_and_rows_of_a_program_are_shown_as_they_are():
    X = np.random.default_rng(0).standard_normal((60, 3))
    model = mercer.KernelPCA(2, kernel="rbf(gamma=0.4)").fit(X)
    with (
        mercer.explore(model, X, labels=["a", "b"] * 30, browser=False) as page,
        httpx.Client() as client,
    ):
        client.get(page.url)
        base = page.url.partition("/?")[0]
        start = client.post(f"{base}/api/state", json={}).json()["start"]
        body = {**start, "panels": {"scores": {"components": [0, 1]}}}
        header, arrays = unpacked(client.post(f"{base}/api/fit", json=body).content)
    expected = model.transform(X)
    assert header["fit"]["kernel"] == "RBF(gamma=0.4)"
    np.testing.assert_array_equal(arrays["scores"], expected.astype(np.float32))


def test_a_model_without_rows_of_its_own_says_that_it_has_no_way_back():
    rng = np.random.default_rng(0)
    model = mercer.KernelPCA(2, approximation="nystrom").fit(rng.standard_normal((700, 3)))
    with pytest.raises(mercer.errors.InputError, match="keeps no rows of its own"):
        mercer.explore(model, browser=False)
    X = rng.standard_normal((30, 3))
    with mercer.explore(model, X, browser=False) as page, httpx.Client() as client:
        client.get(page.url)
        base = page.url.partition("/?")[0]
        start = client.post(f"{base}/api/state", json={}).json()["start"]
        reply = client.post(f"{base}/api/walk", json=start)
    assert code(reply) == (422, "refused")
    assert "preimage='ridge'" in reply.json()["error"]["message"]


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_the_address_that_is_printed_answers_on_ipv6_too():
    session = Session()
    try:
        launch.begin(session, "moons")
        served = launch.made(session, host="::1")
    except MercerError:
        session.close()
        pytest.skip("::1 is not an address of this machine")
    with served.start():
        assert httpx.get(served.url, timeout=SECONDS).status_code == 200


def test_a_port_that_is_taken_is_named(page):
    with pytest.raises(
        mercer.errors.ParameterError, match=f"port must be free; got {page.guard.port}"
    ):
        mercer.explore("circles", browser=False, port=page.guard.port)


def test_json_of_every_answer_is_json(client):
    """No NaN and no infinity, which a browser would stumble over."""
    table = client.post("/api/open", json={"builtin": "tank"}).json()
    body = {"table": table["id"], "recipe": table["suggested"], "watch": table["partner"]}
    reply = client.post("/api/detector", json=body)
    length = int.from_bytes(reply.content[:4], "little")

    def refused(word):
        raise AssertionError(word)

    json.loads(reply.content[4 : 4 + length], parse_constant=refused)


def test_answers_are_not_held_back_until_they_are_acknowledged():
    """Nagle's delay, 40 ms of every answer, is off only for sockets that call themselves TCP (asyncio)."""
    with launch.listening() as found:
        assert found.proto == socket.IPPROTO_TCP
