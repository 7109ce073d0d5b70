#!/usr/bin/env python3
"""The page as a whole: its numbers, tokens, pointer, views and exports, and what it costs when it is large.

    test_page.py MAKE_PAGE [GROUP...]
"""

import pathlib
import re
import struct
import time
import xml.etree.ElementTree

import page_test
from page_test import PageTest

SIZE_LIMIT = 15_000_000  # bytes of a page of 72 heads at 512 tokens


class Numbers(PageTest):
    def test_a_cell_tells_its_tokens_and_its_weight(self):
        page = self.open("words")
        for i, j in [(0, 0), (2, 5), (5, 1)]:
            weight = (1 + i + j) / (21 + 6 * i)
            self.assertRegex(self.cell(page, i, j), rf"\({i}\) → .* \({j}\): {weight:.6f}$")
        self.assertEqual(self.cell(page, 1, 2).split(":")[0], "“un” (1) → “##believ” (2)")
        self.assertTrue(self.text(page, "#tip").startswith("un → ##believ\n0.148148"))

    def test_every_head_has_its_own_numbers(self):
        page = self.open("words")
        first = self.cell(page, 1, 1)
        page.keyboard.press("ArrowRight")
        self.rest(page)
        self.assertEqual(self.head(page), (0, 1))
        self.assertNotEqual(first, self.cell(page, 1, 1))

    def test_cross_attention_has_two_lists(self):
        page = self.open("cross")
        self.assertIn("3 queries, 5 keys", self.text(page, "#facts"))
        self.assertEqual(self.cell(page, 2, 4), f"“dort” (2) → “.” (4): {7 / 25:.6f}")
        self.assertEqual(self.cell(page, 0, 3), f"“le” (0) → “asleep” (3): {4 / 15:.6f}")

    def test_the_lists_are_sorted_and_complete(self):
        page = self.open("words")
        self.token(page, 1).click()
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "“un” (1) attends to")
        self.assertEqual([name for name, _ in self.list(page, "reads")],
                         ["[SEP]", "story", "##able", "##believ", "un", "[CLS]"])
        self.assertEqual(self.list(page, "reads")[0][1], round(7 / 27, 4))
        self.assertEqual(self.list(page, "read-by")[0], ("[SEP]", round(7 / 51, 4)))

    def test_the_precision_is_said(self):
        self.assertIn("rounded to 6 decimals", self.text(self.open("words"), "#precision"))


class Tokens(PageTest):
    def test_markup_stays_text(self):
        page = self.open("hostile")
        self.assertIsNone(page.evaluate("window.broken ?? null"))
        self.assertEqual(page.locator("#text img, #notes img").count(), 0)
        self.assertEqual(self.text(page, "#title"), "</title><script>window.broken=1</script>")
        self.assertEqual(page.title(), "</title><script>window.broken=1</script>")
        self.assertIn("<img src=x", self.text(page, "#notes"))
        shown = page.locator("#text .token").all_inner_texts()
        self.assertEqual(shown[:5], ["a<b<c", "&amp;", "</script><script>window.broken=3</script>", "\"quoted'", "back\\slash"])
        self.assertEqual(shown[5:], ["new⏎line", "[U+200F]right", "[U+2028]", "<!--", "{{script}}", "]]>", "��"])

    def test_markup_in_words_stays_text(self):
        page = self.open("hostile")
        page.keyboard.press("w")
        self.rest(page)
        self.assertEqual(page.locator("#text .token").first.inner_text(), "</script><script>window.broken=4</script>")
        self.assertIsNone(page.evaluate("window.broken ?? null"))

    def test_no_element_comes_from_a_token(self):
        text = self.file_of("hostile").read_text(encoding="utf-8")
        self.assertEqual(len(re.findall(r"</script", text)), len(re.findall(r"<script", text)))
        self.assertEqual(text.count("<script"), 2 + 2, "data, two maps and one script")
        self.assertNotIn("\u2028", text)

    def test_wide_characters_are_shown(self):
        page = self.open("wide", width=390)
        self.assertEqual(page.locator("#text .token").all_inner_texts()[:5], ["老白", "拿起", "他的", "锅铲", "👩‍🍳"])
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390, "nothing wider than the screen")


class Pointer(PageTest):
    def test_hover_follows_and_lets_go(self):
        page = self.open("words")
        self.token(page, 4).hover()
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "“story” (4) attends to")
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "Strongest links")

    def test_a_pin_stays_through_heads_and_levels(self):
        page = self.open("words")
        self.token(page, 2).click()
        page.mouse.move(2, 2)
        for key in ["ArrowRight", "ArrowDown"]:
            page.keyboard.press(key)
            self.rest(page)
            self.assertEqual(self.text(page, "#reads-name"), "“##believ” (2) attends to")
        page.keyboard.press("w")
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "“unbelievable” (1) attends to")
        page.keyboard.press("Escape")
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "Strongest links")

    def test_a_click_on_a_cell_pins_its_row_and_again_lets_go(self):
        page = self.open("words")
        self.cell(page, 3, 1)
        page.mouse.down(), page.mouse.up()
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertEqual(self.text(page, "#readout"), "“##able” (3) → “un” (1): 0.128205, pinned: Esc lets go")
        self.cell(page, 3, 1)
        page.mouse.down(), page.mouse.up()
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertEqual(self.text(page, "#reads-name"), "Strongest links")

    def test_a_token_of_the_lines_can_be_pinned(self):
        page = self.open("cross")
        box = page.locator("#lines").bounding_box()
        page.mouse.click(box["x"] + box["width"] - 20, box["y"] + 8 + 22 * 1.5)
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertEqual(self.text(page, "#readout"), "Key “cat” (1), pinned: Esc lets go")
        self.assertEqual(self.list(page, "read-by")[0], ("dort", round(4 / 25, 4)))

    def test_a_click_on_a_small_map_opens_its_head(self):
        page = self.open("words")
        place = page.evaluate("window.multiheadPage.placeOfHead(1, 2)")
        page.locator("#grid").click(position=place)
        self.rest(page)
        self.assertEqual(self.head(page), (1, 2))
        page.locator("#grid").hover(position=page.evaluate("window.multiheadPage.placeOfHead(0, 1)"))
        self.assertTrue(self.text(page, "#tip").startswith("Layer 0, head 1\nentropy"))


class Keys(PageTest):
    def test_arrows_move_between_heads_and_stop_at_the_edge(self):
        page = self.open("words")
        for key, head in [("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("ArrowDown", (1, 1)), ("ArrowLeft", (1, 0)),
                          ("ArrowLeft", (1, 0)), ("ArrowUp", (0, 0))]:
            page.keyboard.press(key)
            self.rest(page)
            self.assertEqual(self.head(page), head, key)

    def test_brackets_move_the_pin(self):
        page = self.open("words")
        for key, name in [("]", "[CLS]” (0"), ("]", "un” (1"), ("[", "[CLS]” (0"), ("[", "[SEP]” (5")]:
            page.keyboard.press(key)
            self.rest(page)
            self.assertEqual(self.text(page, "#reads-name"), f"“{name}) attends to")

    def test_help_opens_and_closes(self):
        page = self.open("words")
        page.keyboard.press("?")
        self.assertTrue(page.locator("#help").is_visible())
        self.assertIn("mean over its pieces", self.text(page, "#help"))
        page.keyboard.press("Escape")
        self.assertFalse(page.locator("#help").is_visible())


class Views(PageTest):
    def test_words_sum_over_keys_and_average_over_queries(self):
        page = self.open("words")
        page.locator("#level-words").click()
        self.rest(page)
        weight = sum((1 + i + j) / (21 + 6 * i) for i in (1, 2, 3) for j in (1, 2, 3)) / 3
        read = self.cell(page, 1, 1)
        self.assertTrue(read.startswith("“unbelievable” (1) → “unbelievable” (1)"), read)
        self.assertAlmostEqual(float(read.split(": ")[1]), weight, delta=5e-6)

    def test_hidden_specials_leave_rows_that_sum_to_one(self):
        page = self.open("words")
        page.keyboard.press("s")
        self.rest(page)
        self.assertEqual(page.locator("#text .token").all_inner_texts(), ["un", "##believ", "##able", "story"])
        row = [float(self.cell(page, 1, j).split(": ")[1]) for j in range(4)]
        self.assertAlmostEqual(sum(row), 1, delta=1e-5)
        rest = sum(1 + 2 + j for j in (1, 2, 3, 4))
        self.assertAlmostEqual(row[0], (1 + 2 + 1) / rest, delta=1e-5)

    def test_words_and_hidden_specials_compose(self):
        page = self.open("words")
        page.keyboard.press("s"), page.keyboard.press("w")
        self.rest(page)
        row = [float(self.cell(page, 0, j).split(": ")[1]) for j in range(2)]
        self.assertAlmostEqual(sum(row), 1, delta=1e-5)

    def test_light_and_dark(self):
        ground = "getComputedStyle(document.body).backgroundColor"
        light, dark = self.open("four"), self.open("four", scheme="dark")
        self.assertNotEqual(light.evaluate(ground), dark.evaluate(ground))
        light.keyboard.press("t")
        self.rest(light)
        self.assertEqual(light.evaluate(ground), dark.evaluate(ground))

    def test_zoom_makes_cells_larger_and_fit_takes_it_back(self):
        page = self.open("medium")
        width = "document.querySelector('#matrix-box .sheet').offsetWidth"
        before = page.evaluate(width)
        page.keyboard.press("+")
        self.rest(page)
        self.assertGreater(page.evaluate(width), before)
        page.keyboard.press("0")
        self.rest(page)
        self.assertEqual(page.evaluate(width), before)

    def test_no_screen_is_too_narrow(self):
        for width in (320, 390, 800, 1200, 1600):
            page = self.open("medium", width=width)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)


class Export(PageTest):
    def test_svg_is_a_drawing_with_the_tokens_in_it(self):
        for case, figure in [("words", "matrix"), ("words", "lines"), ("hostile", "matrix"), ("hostile", "lines")]:
            path = self.saved(self.open(case), f"#{figure}-svg")
            self.assertEqual(path.name, f"layer0-head0-{figure}.svg")
            root = xml.etree.ElementTree.parse(path).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
            self.assertIn("##believ" if case == "words" else "a<b<c", texts)
            self.assertEqual(list(root.iter("{http://www.w3.org/2000/svg}script")), [])
            marks = list(root.iter("{http://www.w3.org/2000/svg}" + ("rect" if figure == "matrix" else "path")))
            self.assertGreaterEqual(len(marks), 36)

    def test_png_has_the_size_of_the_whole_figure(self):
        for figure in ("matrix", "lines"):
            path = self.saved(self.open("words"), f"#{figure}-png")
            content = path.read_bytes()
            self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", content[16:24])
            self.assertGreater(width, 200)
            self.assertGreater(height, 200)


class Large(PageTest):
    def test_72_heads_at_512_tokens(self):
        size = self.file_of("big72").stat().st_size
        page = self.open("big72")
        self.report("72 heads, 512 tokens", page, size)
        self.assertLessEqual(size, SIZE_LIMIT)
        self.assertIn("rounded to 4 decimals", self.text(page, "#precision"))
        self.assertIn(" → ", self.cell(page, 100, 200))
        for button in ("#matrix-svg", "#lines-svg", "#matrix-png", "#lines-png"):
            with page.expect_download() as download:
                page.locator(button).click()
            self.assertGreater(pathlib.Path(download.value.path()).stat().st_size, 10_000, button)

    def test_144_heads_at_512_tokens(self):
        page = self.open("big144")
        self.report("144 heads, 512 tokens", page, self.file_of("big144").stat().st_size)
        for key, head in [("ArrowRight", (0, 1)), ("ArrowDown", (1, 1))]:
            page.keyboard.press(key)
            self.rest(page)
            self.assertEqual(self.head(page), head)
        self.token(page, 300).click()
        self.rest(page)
        self.assertEqual(len(self.list(page, "reads")), 8)

    def report(self, name, page, size):
        ready = page.evaluate("document.documentElement.dataset.ready")
        start = time.perf_counter()
        for step in range(20):
            self.cell(page, 5 * step, 7 * step)
        moved = (time.perf_counter() - start) / 20
        print(f"{name}: {size / 1e6:.1f} MB, interactive after {ready} ms, {1000 * moved:.0f} ms a pointer move", flush=True)


if __name__ == "__main__":
    page_test.main()
