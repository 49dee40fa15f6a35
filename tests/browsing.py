"""A browser and the page of `mercer explore` in it, for tests."""

import json
import math
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress

import numpy as np

PATIENCE = 300_000  # ms: what a busy machine may take; nothing waits so long where all is well
FLAGS = [
    "--no-sandbox",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--no-first-run",
]


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := os.environ.get("MERCER_CHROMIUM") or shutil.which(name):
            return found
    return None


@contextmanager
def explored(*data):
    """The command in a process of its own; its address."""
    command = [sys.executable, "-m", "mercer", "explore", *map(str, data), "--no-browser"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **quiet) as run:
        try:
            yield run.stdout.readline().strip()
        finally:  # leaving `with` waits for the process, so it must have ended, whatever it computes
            run.terminate()
            with suppress(subprocess.TimeoutExpired):
                run.wait(5)
            run.kill()


@contextmanager
def visits(browser, server):
    """A function that opens the page of a server; whatever was amiss on any of its visits fails the test."""
    opened = []

    def open_page(address="", **options):
        opened.append(Visit(browser, server + address, **options))
        opened[-1].settled()
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()
        assert [text for text in each.trouble if not each.forgives(text)] == []


class Visit:
    """A page, and everything that it did and should not do."""

    def __init__(self, browser, url, **options):
        self.context = browser.new_context(viewport={"width": 1300, "height": 900}, **options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.trouble, self.asked, self.may_refuse = [], [], False
        self.page.on("request", self._request)
        self.page.on("console", lambda m: m.type == "error" and self.trouble.append(m.text))
        self.page.on("pageerror", lambda e: self.trouble.append(str(e)))
        self.page.on("dialog", lambda d: (self.trouble.append(d.message), d.dismiss()))
        self.page.goto(url)

    def _request(self, request):
        self.asked.append(request.url)
        if not request.url.startswith(("http://127.0.0.1:", "blob:", "data:")):
            self.trouble.append(request.url)

    def forgives(self, text):
        """A browser reports every request that was refused, though the page answers it in words."""
        return self.may_refuse and "422" in text

    def settled(self, kernel=""):
        """Wait until the fit at rest is drawn, and give the text of its kernel."""
        self.page.wait_for_selector(f"#explore[data-settled*={json.dumps(kernel or '(')}]")
        return self.page.get_attribute("#explore", "data-settled")

    def fits(self):
        return sum(url.endswith("/api/fit") for url in self.asked)

    def panel(self, title):
        return self.page.get_by_role("region", name=title, exact=True)

    def kernel(self):
        return self.page.get_by_role("combobox", name="Kernel", exact=True)

    def width(self):
        return self.page.get_by_role("slider", name="gamma of")

    def lasso(self, title, radius, centre=(0.5, 0.5)):
        """Draw a circle around a place of a plot, given as shares of its width and height."""
        box = self.panel(title).locator(".plot").bounding_box()
        x, y = (
            box[a] + share * box[b]
            for a, b, share in zip("xy", ("width", "height"), centre, strict=True)
        )
        ring = [
            (x + radius * math.cos(t), y + radius * math.sin(t))
            for t in np.linspace(0, 2 * np.pi, 24)
        ]
        self.page.mouse.move(*ring[0])
        self.page.mouse.down()
        for at in ring:
            self.page.mouse.move(*at)
        self.page.mouse.up()

    def drop(self, name, content, *more):
        """Drop a file onto the page, or several: names and contents in turn."""
        script = """(given) => {
            const held = new DataTransfer();
            const content = (each) => (typeof each === "string" ? each : Uint8Array.from(each));
            for (let i = 0; i < given.length; i += 2)
                held.items.add(new File([content(given[i + 1])], given[i]));
            return held;
        }"""
        given = [list(each) if isinstance(each, bytes) else each for each in (name, content, *more)]
        held = self.page.evaluate_handle(script, given)
        for event in ("dragenter", "dragover", "drop"):
            self.page.dispatch_event("#explore", event, {"dataTransfer": held})

    def saved(self, item, folder):
        """The file that an entry of the menu Save gives."""
        self.page.locator("summary", has_text="Save").click()
        with self.page.expect_download() as waited:
            self.page.get_by_role("button", name=item, exact=True).click()
        path = folder / waited.value.suggested_filename
        waited.value.save_as(path)
        return path


def spread(canvas):
    """How much the pixels of a canvas differ from each other: 0 where it is blank."""
    script = """c => {
        const pixels = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return [pixels.reduce((a, b) => Math.min(a, b)), pixels.reduce((a, b) => Math.max(a, b))];
    }"""
    low, high = canvas.evaluate(script)
    return high - low
