#!/usr/bin/env python3
"""What the tests of the page share: a page in a real browser.

    test_<kind>.py MAKE_PAGE [GROUP...]     MAKE_PAGE: the built tests/report/tool/make_page

Exit code 77 (skipped, saying why) without Playwright or Chromium. Playwright is looked for in the running Python, then
in the project's virtual environment.
"""

import os
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    python = cache / "multihead" / "venv" / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python)] + sys.argv)
    print("skipped: neither this Python nor the project's virtual environment has Playwright (scripts/python makes it)")
    sys.exit(77)

BROWSER = next((path for path in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if path), None)


class PageTest(unittest.TestCase):
    """One browser a class; each test opens a page with nothing allowed but the file itself."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.folder.cleanup()

    def file_of(self, case):
        path = pathlib.Path(self.folder.name) / f"{case}.html"
        if not path.exists():
            subprocess.run([self.make_page, case, path], check=True)
        return path

    def context(self, width=1600, height=1000, scheme="light", touch=False):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                           accept_downloads=True, has_touch=touch)
        self.addCleanup(context.close)
        return context

    def open(self, case, width=1600, scheme="light", address="", context=None):
        """A page of that case, all small maps drawn. Fails at its end on any error or request of the page."""
        path = self.file_of(case)
        context = context or self.context(width, scheme=scheme)
        requests, faults = [], []
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.route(re.compile("^(?!file:)"), lambda route: route.abort())
        page.set_default_timeout(120_000)  # a loaded machine is no fault of the page
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-heads]", state="attached")

        def nothing_went_wrong():
            outside = [url for url in requests if url.partition("#")[0] != path.as_uri()
                       and not url.startswith(("blob:", "data:"))]
            self.assertEqual(outside, [], "the page asked for something outside itself")
            self.assertEqual(faults, [], "the page reported errors")
        self.addCleanup(nothing_went_wrong)
        return page

    def text(self, page, selector):
        return page.locator(selector).inner_text()

    def head(self, page):
        return tuple(map(int, re.findall(r"\d+", self.text(page, "#head-name"))))

    def rest(self, page):
        """Waits until what was asked for has been drawn."""
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def until(self, page, expression):
        """Waits until an expression of the page is true. (Playwright's own wait needs eval, which the page forbids.)"""
        end = time.monotonic() + 120
        while not page.evaluate(expression):
            self.assertLess(time.monotonic(), end, expression)
            self.rest(page)
        self.rest(page)

    def pixel(self, page, canvas, x, y):
        """The colour of one CSS pixel of a canvas (device pixels are CSS pixels here)."""
        return page.evaluate("""([id, x, y]) => {
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            context.drawImage(document.getElementById(id), -x, -y);
            return [...context.getImageData(0, 0, 1, 1).data];
        }""", [canvas, math.floor(x), math.floor(y)])[:3]

    def cell(self, page, i, j):
        """Moves the pointer onto cell (i, j) of the map, found by its labels' places; gives what is read out there."""
        place = page.evaluate("window.multiheadPage.placeOfCell(%d, %d)" % (i, j))
        box = page.locator("#matrix").bounding_box()
        page.mouse.move(box["x"] + place["x"], box["y"] + place["y"])
        self.rest(page)
        return self.text(page, "#readout")

    def saved(self, page, button):
        """The file that a button offers."""
        with page.expect_download() as download:
            page.locator(button).click()
        path = pathlib.Path(self.folder.name) / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def svg(self, page, figure):
        return xml.etree.ElementTree.parse(self.saved(page, f"#{figure}-svg")).getroot()

    def list(self, page, name):
        rows = page.locator(f"#{name} li").all()
        return [(row.locator(".label").inner_text(), float(row.locator(".number").inner_text())) for row in rows]

    def place(self, page, canvas, call):
        """Where on the screen something of a canvas is: {x, y}, or None."""
        found = page.evaluate(f"window.multiheadPage.{call}")
        box = page.locator(canvas).bounding_box()
        return found and {"x": box["x"] + found["x"], "y": box["y"] + found["y"]}

    def move_to(self, page, place):
        page.mouse.move(place["x"], place["y"])
        self.rest(page)

    def press(self, page, *keys):
        for key in keys:
            page.keyboard.press(key)
            self.rest(page)

    def readout(self, page):
        return self.text(page, "#readout")

    def inside(self, page, box, selector):
        """Whether an element lies within the window of a scroll box."""
        outer, inner = page.locator(box).bounding_box(), page.locator(selector).bounding_box()
        return outer["y"] - 1 <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 1

    def token(self, page, index):
        return page.locator("#text .token").nth(index)


def main():
    if BROWSER is None:
        print("skipped: no Chromium on the PATH")
        sys.exit(77)
    PageTest.make_page = sys.argv.pop(1)
    unittest.main(module="__main__", verbosity=1)
