"""Record the page of `mercer explore`: `python docs/record_explore.py docs/images/explore.webp`.

Needs Chromium, Playwright and Pillow. Frames are what the browser shows; nothing is drawn here.
"""

import io
import math
import shutil
import subprocess
import sys
import time

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT, EVERY = 1500, 1000, 0.125  # the page, and seconds a frame


class Film:
    """Frames of a page, taken while something is done to it."""

    def __init__(self, page):
        self.page, self.frames = page, []

    def take(self, times=1):
        for _ in range(times):
            began = time.perf_counter()
            shot = Image.open(io.BytesIO(self.page.screenshot()))
            self.frames.append(shot.convert("RGB").resize((1050, 700), Image.Resampling.LANCZOS))
            self.page.wait_for_timeout(max(0, 1000 * (EVERY - (time.perf_counter() - began))))

    def drag(self, locator, shares):
        """Hold the handle of a slider and move it to shares of its length, a frame each."""
        box = locator.bounding_box()
        at = [
            (box["x"] + 8 + s * (box["width"] - 16), box["y"] + box["height"] / 2) for s in shares
        ]
        self.page.mouse.move(*at[0])
        self.page.mouse.down()
        for place in at:
            self.page.mouse.move(*place)
            self.take()
        self.page.mouse.up()

    def circle(self, locator, radius, centre):
        box = locator.bounding_box()
        x, y = box["x"] + centre[0] * box["width"], box["y"] + centre[1] * box["height"]
        self.page.mouse.move(x + radius, y)
        self.page.mouse.down()
        for i in range(17):
            self.page.mouse.move(
                x + radius * math.cos(i * math.pi / 8), y + radius * math.sin(i * math.pi / 8)
            )
            self.take()
        self.page.mouse.up()


def eased(start, stop, steps):
    """Places from start to stop, slow at both ends."""
    return [
        start + (stop - start) * (1 - math.cos(math.pi * i / (steps - 1))) / 2 for i in range(steps)
    ]


def act(page, film):
    """Circles come apart under the slider; rows are selected; a face is walked."""
    page.wait_for_selector("#explore[data-settled*=RBF]")
    width = page.get_by_role("slider", name="gamma of")
    film.take(6)
    film.drag(width, eased(0.67, 0.2, 16) + eased(0.2, 0.85, 26) + eased(0.85, 0.62, 10))
    film.take(4)
    film.circle(
        page.get_by_role("region", name="Data", exact=True).locator(".plot"), 72, (0.56, 0.44)
    )
    film.take(8)
    page.get_by_role("combobox", name="Rows", exact=True).select_option(label="Drawn faces")
    page.wait_for_selector(".images")
    film.take(6)
    walk = page.get_by_role("slider", name="place along the component")
    film.drag(walk, eased(0.5, 0.02, 12) + eased(0.02, 0.98, 26) + eased(0.98, 0.4, 14))
    film.take(4)


def main(path):
    """Start the command, act on its page, write the frames."""
    command = [sys.executable, "-m", "mercer", "explore", "--no-browser"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        with sync_playwright() as started:
            flags = ["--no-sandbox", "--enable-unsafe-swiftshader"]
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto(run.stdout.readline().strip())
            film = Film(page)
            act(page, film)
            browser.close()
    finally:
        run.terminate()
    first, *rest = film.frames
    pace = int(1000 * EVERY)
    first.save(path, save_all=True, append_images=rest, duration=pace, loop=0, quality=62, method=4)


if __name__ == "__main__":
    main(sys.argv[1])
