"""`mercer explore` as a command: an address on stdout, Ctrl-C, and refusals without a traceback."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

MERCER = [sys.executable, "-m", "mercer", "explore"]
SECONDS = 300  # what has not happened by then never will


def started(*args):
    return subprocess.Popen(
        [*MERCER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_command_prints_an_address_serves_it_and_ends_with_ctrl_c(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,kind\n1,2,u\n3,5,v\n4,4,u\n2,7,v\n")
    process = started(str(path), "--label", "kind", "--no-browser")
    try:
        url = process.stdout.readline().strip()
        with httpx.Client(timeout=SECONDS) as client:
            assert client.get(url).status_code == 200
            base = url.partition("/?")[0]
            state = client.post(f"{base}/api/state", json={}).json()
            (table,) = [t for t in state["tables"] if t["id"] == state["start"]["table"]]
            assert (table["n"], table["label"], table["name"]) == (4, "kind", "rows.csv")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "the page is closed" in err
    assert out == ""


# A library that reads a file without an end, and never looks up.
DEAF = """
import sys, time
from mercer.data.csv.table import CsvTable
def chunks(self, height, start):
    print("reading", flush=True)
    while True:
        time.sleep(0.01)
from mercer.app.explore import dataset
before = dataset.opened
def opened(*args, **options):
    CsvTable._chunks = chunks
    return before(*args, **options)
import mercer.web.session
mercer.web.session.opened = opened
from mercer.cli.main import main
main(["explore", "moons", "--no-browser"])
"""


# One that asks whether it is wanted ends by an error, perhaps in the moment in which the server does.
POLITE = DEAF.replace("time.sleep(0.01)", "time.sleep(0.01); require_wanted()").replace(
    "import sys, time", "import sys, time\nfrom mercer._core.observer import require_wanted"
)


@pytest.mark.parametrize("program", [DEAF, *[POLITE] * 3], ids=["deaf", "polite", "again", "twice"])
def test_ctrl_c_ends_the_server_whatever_is_being_read(program):
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        url = process.stdout.readline().strip()
        with httpx.Client(timeout=SECONDS) as client, ThreadPoolExecutor(1) as asking:
            client.get(url)
            base, kind = url.partition("/?")[0], {"content-type": "application/octet-stream"}
            upload = asking.submit(
                client.post, f"{base}/api/upload?name=x.csv", content=b"a,b\n1,2\n", headers=kind
            )
            assert process.stdout.readline() == "reading\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=SECONDS)
            assert upload.exception() is not None or upload.result().status_code != 200
    finally:
        process.kill()
    assert process.returncode == 0
    assert err.splitlines() == ["Ctrl-C, or the button on the page, ends it", "the page is closed"]


def test_other_machines_are_let_in_by_an_option_a_token_and_with_a_warning():
    process = started("moons", "--no-browser", "--host", "0.0.0.0", "--allow-remote")
    try:
        port, token = process.stdout.readline().strip().rpartition(":")[2].split("/?token=")
        with httpx.Client(timeout=SECONDS) as client:
            base = f"http://127.0.0.1:{port}"
            assert client.get(base).status_code == 403
            assert client.get(base, params={"token": token}).status_code == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert len(token) >= 32
    assert "nothing is encrypted" in err


def run(*args):
    return subprocess.run(
        [*MERCER, *args], capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize(
    ("args", "exit_code", "words"),
    [
        (["--host", "0.0.0.0"], 2, "--allow-remote"),
        (["no-such-file.csv"], 3, "no file or folder 'no-such-file.csv'"),
        (["no-such-model.mercer"], 3, "no-such-model.mercer"),
        (["--port", "99999"], 2, "--port"),
    ],
    ids=["remote", "file", "model", "port"],
)
def test_what_can_not_be_served_is_said_in_one_line(args, exit_code, words):
    done = run(*args, "--no-browser")
    assert done.returncode == exit_code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_json_where_that_was_asked_for():
    done = run("no-such-file.csv", "--json", "--no-browser")
    assert json.loads(done.stderr)["error"]["kind"] == "data"
