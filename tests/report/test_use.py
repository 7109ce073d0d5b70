#!/usr/bin/env python3
"""What a person does with the page by mouse, and where things are: zoom, pins, lists, layout.

    test_use.py MAKE_PAGE [GROUP...]
"""

import json
import re

import page_test
from page_test import PageTest


class Zoom(PageTest):
    def cell_size(self, page):
        return page.evaluate("window.multiheadPage.placeOfCell(0, 1).x - window.multiheadPage.placeOfCell(0, 0).x")

    def test_the_cell_under_the_pointer_stays_there(self):
        page = self.open("long")
        self.move_to(page, self.place(page, "#matrix", "placeOfCell(200, 150)"))
        self.press(page, "+", "+", "+")
        place = self.place(page, "#matrix", "placeOfCell(210, 160)")
        self.move_to(page, place)
        before = self.readout(page)
        self.assertIn("(210) → ", before)
        for keys in [("+",), ("+",), ("-", "-"), ("+", "-")]:
            self.press(page, *keys)
            self.assertEqual(self.readout(page), before, keys)
            now = self.place(page, "#matrix", "placeOfCell(210, 160)")
            self.assertAlmostEqual(now["x"], place["x"], delta=1.1 + self.cell_size(page) / 2)
            self.assertAlmostEqual(now["y"], place["y"], delta=1.1 + self.cell_size(page) / 2)

    def test_without_the_pointer_the_pinned_cell_stays(self):
        page = self.open("long", address="#query=300&key=250")
        page.locator("#zoom-in").click()
        self.rest(page)
        before = self.place(page, "#matrix", "placeOfCell(300, 250)")
        for button in ("#zoom-in", "#zoom-in", "#zoom-in", "#zoom-out"):
            page.locator(button).click()
            self.rest(page)
            now = self.place(page, "#matrix", "placeOfCell(300, 250)")
            self.assertAlmostEqual(now["x"], before["x"], delta=1.1)
            self.assertAlmostEqual(now["y"], before["y"], delta=1.1)
            before = now

    def test_what_is_read_out_is_what_is_under_the_pointer(self):
        page = self.open("long")
        self.move_to(page, self.place(page, "#matrix", "placeOfCell(200, 150)"))
        self.press(page, "+", "+", "+", "+")
        def shown():
            found = re.search(r"\((\d+)\) → .* \((\d+)\): ", self.readout(page))
            return tuple(map(int, found.groups()))
        before, weight = shown(), self.readout(page)
        page.mouse.wheel(30 * self.cell_size(page), 20 * self.cell_size(page))
        self.until(page, f"document.getElementById('readout').textContent !== {json.dumps(weight)}")
        self.assertEqual(shown(), (before[0] + 20, before[1] + 30), "after scrolling")
        self.assertIn(self.readout(page).split(": ")[1], self.text(page, "#tip"))
        weight = self.readout(page).split(": ")[1]
        self.press(page, "ArrowRight")
        self.assertEqual(shown(), (before[0] + 20, before[1] + 30), "in another head")
        self.assertNotEqual(self.readout(page).split(": ")[1], weight)
        self.press(page, "0")
        self.assertNotEqual(shown(), (before[0] + 20, before[1] + 30), "the whole map has another cell there")

    def test_two_fingers_zoom_as_well(self):
        page = self.open("long", address="#query=200&key=200")
        self.press(page, "+", "+", "+")
        place = self.place(page, "#matrix", "placeOfCell(210, 190)")
        self.move_to(page, place)
        before, size = self.readout(page), self.cell_size(page)
        page.evaluate("""([x, y]) => document.getElementById("matrix").dispatchEvent(new WheelEvent("wheel",
            { bubbles: true, cancelable: true, ctrlKey: true, deltaY: -10, clientX: x, clientY: y }))""", [place["x"], place["y"]])
        self.rest(page)
        self.assertGreater(self.cell_size(page), size)
        self.assertEqual(self.readout(page), before)


class Pin(PageTest):
    def check_in_view(self, page, index):
        """The pinned query and its strongest link are in sight in text, lines and map."""
        self.assertTrue(self.inside(page, "#text", f"#text .token >> nth={index}"), "text")
        self.move_to(page, self.place(page, "#lines", f"placeOfToken('queries', {index})"))
        self.assertIn(f"({index})", self.readout(page))
        page.mouse.move(2, 2)
        self.rest(page)
        positions = [int(position) for position in page.locator("#reads .at").all_inner_texts()]
        self.assertEqual(len(positions), 8)
        for position in positions:
            place = self.place(page, "#lines", f"placeOfToken('keys', {position})")
            self.assertIsNotNone(place, f"link to {position} in the lines")
            box = page.locator("#lines-box").bounding_box()
            self.assertTrue(box["y"] < place["y"] < box["y"] + box["height"])
        place = page.evaluate("window.multiheadPage.placeOfCell(%d, %d)" % (index, positions[0]))
        box = page.locator("#matrix").bounding_box()
        self.assertTrue(0 < place["x"] < box["width"] and 0 < place["y"] < box["height"], "map")

    def test_a_pin_in_the_map_comes_into_view_in_text_and_lines(self):
        page = self.open("long")
        place = self.place(page, "#matrix", "placeOfCell(310, 40)")
        page.mouse.click(place["x"], place["y"])
        self.rest(page)
        index = int(re.search(r"\((\d+)\)", self.readout(page)).group(1))
        self.assertAlmostEqual(index, 310, delta=2)
        page.mouse.move(2, 2)
        self.check_in_view(page, index)

    def test_a_pin_in_the_text_comes_into_view_in_lines_and_map(self):
        page = self.open("long")
        self.press(page, "+", "+", "+", "+", "+", "+", "+")
        self.token(page, 230).click()
        self.rest(page)
        self.check_in_view(page, 230)

    def test_a_pin_by_keys_or_address_comes_into_view(self):
        page = self.open("long", address="#query=200")
        self.rest(page)
        self.check_in_view(page, 200)
        self.press(page, "[")
        self.check_in_view(page, 199)

    def test_the_text_shows_a_pin_with_a_link_where_both_fit(self):
        page = self.open("long", address="#query=150")
        self.rest(page)
        links = [int(position) for position in page.locator("#reads .at").all_inner_texts()]
        tops = page.eval_on_selector_all("#text .token", "spans => spans.map(span => [span.offsetTop, span.offsetTop + span.offsetHeight])")
        height = page.evaluate("document.getElementById('text').clientHeight")
        fit = [j for j in links if max(tops[j][1], tops[150][1]) - min(tops[j][0], tops[150][0]) <= height]
        self.assertTrue(fit, "the case has links that fit")
        self.assertTrue(any(self.inside(page, "#text", f"#text .token >> nth={j}") for j in fit))

    def test_a_click_in_the_lines_pins_what_is_there_also_when_they_are_folded(self):
        page = self.open("long", address="#query=200")
        self.rest(page)
        position = int(page.locator("#reads .at").first.inner_text())
        place = self.place(page, "#lines", f"placeOfToken('keys', {position})")
        page.mouse.click(place["x"], place["y"])
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertTrue(re.match(rf"Key “.*” \({position}\), pinned", self.readout(page)), self.readout(page))

    def test_another_cell_of_the_row_moves_the_pin(self):
        page = self.open("cross")
        for j in (1, 3):
            place = self.place(page, "#matrix", f"placeOfCell(2, {j})")
            page.mouse.click(place["x"], place["y"])
        page.mouse.move(2, 2)
        self.rest(page)
        self.assertEqual(self.readout(page), f"“dort” (2) → “asleep” (3): {6 / 25:.6f}, pinned: Esc lets go")


class Lists(PageTest):
    def test_every_token_has_its_position(self):
        page = self.open("cross", address="#query=0")
        self.assertEqual(page.locator("#reads .who").all_inner_texts(), [". 4", "asleep 3", "is 2", "cat 1", "the 0"])
        self.press(page, "Escape")
        self.assertEqual(page.locator("#reads .who").first.inner_text(), "le 0 → . 4")
        self.assertEqual(page.locator("#read-by .who").first.inner_text(), ". 4")

    def test_a_row_is_shown_in_the_figures(self):
        page = self.open("cross")
        page.locator("#reads .entry").first.hover()
        self.rest(page)
        self.assertEqual(self.readout(page), f"“le” (0) → “.” (4): {5 / 15:.6f}")
        self.assertEqual(page.locator("#text .marked").all_inner_texts(), ["le", "."])
        self.assertEqual(self.text(page, "#reads-name"), "Strongest links", "the lists stay")
        page.locator("#read-by .entry").nth(1).hover()
        self.rest(page)
        self.assertEqual(page.locator("#text .marked").all_inner_texts(), ["asleep"])

    def test_rows_work_by_keyboard(self):
        page = self.open("cross", address="#query=1")
        page.locator("#reads .entry").nth(2).focus()
        self.rest(page)
        self.assertEqual(page.locator("#text .marked").all_inner_texts(), ["chat", "is"])
        self.press(page, "Enter")
        self.assertIn("query=1&key=2", page.url)

    def test_numbers_keep_their_figures_over_512_tokens(self):
        page = self.open("even", address="#query=100")
        self.rest(page)
        self.assertEqual({number for _, number in self.list(page, "reads")}, {round(1 / 512, 5)})
        self.assertEqual({number for _, number in self.list(page, "read-by")}, {round(1 / 512, 5)})
        self.assertTrue(self.cell(page, 30, 40).endswith(": 0.00195"))
        self.assertIn("rounded to 5 decimals", self.text(page, "#precision"))
        self.assertEqual(self.text(page, "#legend-high"), "0.00195")
        self.press(page, "ArrowRight")
        self.assertIn("rounded to 4 decimals", self.text(page, "#precision"))
        shown = [page.locator("#reads .number").all_inner_texts(), page.locator("#read-by .number").all_inner_texts()]
        self.assertEqual([text for row in shown for text in row if float(text) == 0], [])

    def test_what_is_too_small_to_be_kept_is_said_to_be_below(self):
        page = self.open("long")
        seen = {self.cell(page, 5 * n, 7 * n).split(": ")[1] for n in range(40)}
        self.assertFalse([text for text in seen if re.fullmatch("0\\.0+", text)])


class Layout(PageTest):
    def test_the_map_is_in_view_when_a_head_of_the_last_layer_is_opened(self):
        for width, height in [(1600, 1000), (1400, 720), (1000, 800), (768, 1024), (390, 800)]:
            page = self.open("deep", context=self.context(width, height))
            place = page.evaluate("window.multiheadPage.placeOfHead(13, 2)")
            page.locator("#grid").click(position=place)
            self.rest(page)
            self.assertEqual(self.head(page), (13, 2))
            page.wait_for_timeout(50)
            box = page.locator("#matrix-box").bounding_box()
            in_view = min(box["y"] + box["height"], height) - max(box["y"], 0)
            self.assertGreaterEqual(in_view, 0.7 * min(box["height"], height), f"{width} x {height}: {box}")

    def test_small_maps_fit_the_window(self):
        for height in (720, 1000):
            page = self.open("deep", context=self.context(1600, height))
            box = page.locator("#grid-box").bounding_box()
            self.assertLess(box["y"] + box["height"], height)
            self.assertFalse(page.evaluate("(box => box.scrollHeight > box.clientHeight)(document.getElementById('grid-box'))"))

    def test_no_screen_is_too_narrow(self):
        for case in ("deep", "unseen", "one", "even"):
            for width in (320, 360, 700, 1200):
                page = self.open(case, width=width)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width, case)

    def test_numbers_of_heads_that_were_removed_are_left_out(self):
        page = self.open("deep")
        self.assertEqual(self.head(page), (0, 1))
        self.assertIn("54 heads", self.text(page, "#facts"))
        for key, head in [("ArrowLeft", (0, 1)), ("ArrowDown", (1, 1)), ("ArrowDown", (2, 1)), ("ArrowDown", (4, 1)),
                          ("ArrowUp", (2, 1)), ("ArrowLeft", (2, 0)), ("ArrowDown", (3, 0)), ("ArrowRight", (3, 2))]:
            self.press(page, key)
            self.assertEqual(self.head(page), head, key)


if __name__ == "__main__":
    page_test.main()
