"""The page in a notebook: its modules as one text, its questions as messages, no server."""

import base64
from collections import defaultdict
from queue import Queue

import pytest

from browsing import FLAGS, PATIENCE, chromium, spread

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("anywidget")

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH or in $MERCER_CHROMIUM"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of playwright's own pipes
]

# What a notebook does: import the module, hand over a model with messages and an element.
HOST = """async ([source, css]) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets = [sheet];
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const listeners = [];
  const model = {
    on: (name, act) => listeners.push(act),
    send: async (content) => {
      const [told, body] = await window.asked(content);
      listeners.forEach((act) => act(told, [new DataView(bytes(body).buffer)]));
    },
  };
  const text = new Blob([source], { type: "text/javascript" });
  const { default: widget } = await import(URL.createObjectURL(text));
  widget.render({ model, el: document.body });
}"""


def test_the_widget_draws_the_same_page_over_messages(monkeypatch):
    from mercer.web.widget import widget

    cell = widget("moons")
    answers = defaultdict(Queue)  # by the number of the question
    monkeypatch.setattr(
        cell, "send", lambda told, buffers: answers[told["id"]].put((told, *buffers))
    )

    def asked(content):
        cell.asked(content, [])
        told, body = answers[content["id"]].get(timeout=PATIENCE / 1000)
        return [told, base64.b64encode(bytes(body)).decode()]

    trouble = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page()
        page.on("console", lambda m: m.type == "error" and trouble.append(m.text))
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.on("request", lambda r: r.url.startswith("http") and trouble.append(r.url))
        page.expose_function("asked", asked)
        page.goto("about:blank")
        page.evaluate(HOST, [cell._esm, cell._css])
        page.wait_for_selector(".mx[data-settled*='RBF']", timeout=PATIENCE)
        assert page.get_by_text("400 rows × 2 columns").count() == 1
        for title in ("Data", "Scores", "Level sets"):
            panel = page.get_by_role("region", name=title, exact=True)
            assert spread(panel.locator("canvas").first) > 100
        browser.close()
    cell.close()
    assert trouble == []
