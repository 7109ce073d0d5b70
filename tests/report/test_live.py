#!/usr/bin/env python3
"""multihead serve in a real browser: what is typed is seen.

    test_live.py MAKE_PAGE MULTIHEAD [GROUP...]
"""

import pathlib
import re
import subprocess
import sys
import urllib.parse

import page_test
from page_test import PageTest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import cli_support  # noqa: E402


class Live(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.folder.name)
        cli_support.make_model(folder / "model", words="the cat sat on mat 猫 <b>")
        cls.server = subprocess.Popen([MULTIHEAD, "serve", "--model", "model", "--port", "0"], stdout=subprocess.PIPE,
                                      cwd=folder)
        cls.address = re.search(r"http://\S+", cls.server.stdout.readline().decode()).group()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()
        super().tearDownClass()

    def open_live(self, address="", width=1400, scheme="light", expected=()):
        """The page. Fails at its end on any complaint of the browser but the expected ones."""
        page = self.context(width, scheme=scheme).new_page()
        faults = []
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning") else None)
        page.goto(self.address + address)
        self.addCleanup(lambda: self.assertEqual([each for each in faults if not any(e in each for e in expected)], []))
        return page

    def shown(self, page, text):
        """The page below, once it is the one of this text."""
        self.until(page, "document.querySelectorAll('iframe').length == 1 && "
                         "document.querySelector('iframe:not(.coming)')?.contentWindow.document"
                         ".querySelector('html[data-heads] #given')?.textContent == %s" % repr(text))
        return page.frame_locator("iframe")

    def parts(self, page):
        return dict(urllib.parse.parse_qsl(page.evaluate("location.hash.slice(1)")))

    def test_a_typed_text_is_shown(self):
        page = self.open_live("#text=the+cat")
        below = self.shown(page, "the cat")
        self.assertEqual(below.locator("#text .token").all_inner_texts(), ["[CLS]", "the", "cat", "[SEP]"])
        page.locator("#typed").fill("the cat sat on <b> 猫")
        below = self.shown(page, "the cat sat on <b> 猫")
        self.assertIn("猫", below.locator("#text").inner_text())
        self.assertRegex(page.locator("#said").inner_text(), r"^\d+ ms$")

    def test_the_view_stays_while_the_text_changes(self):
        page = self.open_live("#text=the+cat")
        below = self.shown(page, "the cat")
        below.locator("#head-after").click()
        below.locator("#theme").click()
        self.until(page, "location.hash.includes('theme=dark')")
        before = self.parts(page)
        page.locator("#typed").fill("the mat")
        below = self.shown(page, "the mat")
        self.until(page, "location.hash.includes('mat')")
        self.assertEqual(self.parts(page), {**before, "text": "the mat"})
        self.assertEqual(below.locator("#head-name").inner_text(), f"Layer {before['layer']}, head {before['head']}")
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        address = page.evaluate("location.hash")
        again = self.open_live(address)
        self.shown(again, "the mat")
        self.assertEqual(self.parts(again), self.parts(page))

    def test_the_last_text_wins(self):
        page = self.open_live("#text=the+cat")
        self.shown(page, "the cat")
        page.locator("#typed").press_sequentially(" sat on the mat", delay=30)
        self.shown(page, "the cat sat on the mat")

    def test_says_what_is_wrong_and_goes_on(self):
        page = self.open_live("#text=the+cat", expected=["status of 400"])
        self.shown(page, "the cat")
        with page.expect_response(lambda answer: answer.status == 400):
            page.locator("#typed").fill("\u200b")
        self.until(page, "document.getElementById('said').classList.contains('failed')")
        self.assertEqual(page.locator("#said").inner_text(),
                         "the text must hold a token of its own, got only what the tokenizer drops")
        page.locator("#typed").fill("the mat")
        self.shown(page, "the mat")
        self.assertRegex(page.locator("#said").inner_text(), r"^\d+ ms$")

    def test_fits_a_narrow_screen(self):
        page = self.open_live("#text=the+cat", width=390)
        self.shown(page, "the cat")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)


if __name__ == "__main__":
    MULTIHEAD = str(pathlib.Path(sys.argv.pop(2)).resolve())
    page_test.main()
