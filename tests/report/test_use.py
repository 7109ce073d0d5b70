#!/usr/bin/env python3
"""What a person does with the page, by mouse, finger, keyboard, address, screen reader and printer.

    test_use.py MAKE_PAGE [GROUP...]
"""

import json
import pathlib
import re
import subprocess
import sys
import unicodedata

import page_test
from colours import contrast, channels, variables
from page_test import PageTest


class UseTest(PageTest):
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


class Zoom(UseTest):
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


class Pin(UseTest):
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
        self.press(page, "+", "+", "+")
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


class Lists(UseTest):
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


class Layout(UseTest):
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


class Keyboard(UseTest):
    def test_arrows_belong_to_the_box_or_control_that_has_the_focus(self):
        page = self.open("long")
        for box in ("#text", "#lines-box"):
            page.locator(box).focus()
            before = page.evaluate("box => document.querySelector(box).scrollTop", box)
            page.keyboard.press("ArrowDown")
            self.until(page, f"document.querySelector('{box}').scrollTop > {before}")
            self.press(page, "ArrowRight")
            self.assertEqual(self.head(page), (0, 0), box)
        for control in ("#scale-linear", "#head-after", "#zoom-in", "#reads .entry >> nth=0"):
            page.locator(control).focus()
            self.press(page, "ArrowRight")
            self.assertEqual(self.head(page), (0, 0), control)
        page.locator("#heads-keys").focus()
        self.press(page, "ArrowRight")
        self.assertEqual(self.head(page), (0, 1), "the small maps are what arrows are for")

    def test_after_a_click_arrows_change_heads_again(self):
        page = self.open("medium")
        head = 0
        for selector in ("#scale-linear", "#text .token >> nth=3", "#reads .entry >> nth=0", "#zoom-fit"):
            page.locator(selector).click()
            self.press(page, "ArrowRight")
            head += 1
            self.assertEqual(self.head(page), (0, head), selector)

    def test_letters_can_be_switched_off(self):
        page = self.open("medium")
        self.press(page, "?")
        page.locator("#letters").click()
        page.locator("#help button").click()
        for key in "rtsw?]":
            self.press(page, key)
        self.assertNotIn("linear", page.url)
        self.assertFalse(page.locator("#help").is_visible())
        self.press(page, "ArrowRight")
        self.assertEqual(self.head(page), (0, 1))

    def test_everything_with_the_focus_shows_it(self):
        page = self.open("long", address="#query=4")
        seen = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            found = page.evaluate("""() => {
                const node = document.activeElement;
                const style = getComputedStyle(node);
                return [node.id || node.className || node.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
            }""")
            if found[0] == "BODY":
                break
            seen.add(found[0])
            self.assertTrue(found[1] != "none" and found[2] >= 2, found)
        self.assertLessEqual({"level-words", "scale-linear", "hide", "theme", "help-open", "heads-keys", "maps-own", "text",
                              "head-after", "zoom-in", "lines-box", "matrix-svg", "token-after", "entry"}, seen)


class Address(UseTest):
    def test_every_part_is_restored(self):
        pressed = lambda page, id: page.locator(f"#{id}").get_attribute("aria-pressed")
        name = lambda page: self.readout(page)
        theme = "document.documentElement.dataset.theme"
        cases = [("layer=1&head=2", lambda page: self.head(page), (1, 2)),
                 ("level=words", lambda page: pressed(page, "level-words"), "true"),
                 ("hide=special", lambda page: pressed(page, "hide"), "true"),
                 ("query=3", name, "Query “##able” (3), pinned: Esc lets go"),
                 ("key=3", name, "Key “##able” (3), pinned: Esc lets go"),
                 ("query=2&key=5", name, f"“##believ” (2) → “[SEP]” (5): {8 / 33:.6f}, pinned: Esc lets go"),
                 ("scale=linear", lambda page: pressed(page, "scale-linear"), "true"),
                 ("scale=root", lambda page: pressed(page, "scale-root"), "true"),
                 ("maps=own", lambda page: pressed(page, "maps-own"), "true"),
                 ("theme=dark", lambda page: page.evaluate(theme), "dark"),
                 ("theme=light", lambda page: page.evaluate(theme), "light")]
        for parts, read, expected in cases:
            scheme = "dark" if parts == "theme=light" else "light"
            page = self.open("words", scheme=scheme, address=f"#{parts}")
            self.rest(page)
            self.assertEqual(read(page), expected, parts)
            self.assertLessEqual(set(parts.split("&")), set(page.url.partition("#")[2].split("&")), "and is written again")
            page.reload()
            page.wait_for_selector("html[data-heads]", state="attached")
            self.rest(page)
            self.assertEqual(read(page), expected, f"{parts} after a reload")

    def test_what_is_done_is_written(self):
        page = self.open("words")
        for keys, part in [(["ArrowDown", "ArrowRight"], "layer=1&head=1"), (["w"], "level=words"), (["s"], "hide=special"),
                           (["r"], "scale=linear"), (["m"], "maps=own"), (["t"], "theme=dark"), (["]"], "query=1")]:
            self.press(page, *keys)
            self.assertIn(part, page.url)
        self.assertTrue(page.url.endswith("#layer=1&head=1&level=words&hide=special&query=1&scale=linear&maps=own&theme=dark"), page.url)

    def test_a_changed_address_is_followed(self):
        page = self.open("words")
        self.press(page, "]")
        page.evaluate("location.hash = '#layer=1&head=2&key=4&scale=linear'")
        self.until(page, "document.getElementById('head-name').textContent === 'Layer 1, head 2'")
        self.rest(page)
        self.assertEqual(self.readout(page), "Key “story” (4), pinned: Esc lets go")
        self.assertEqual(page.locator("#scale-linear").get_attribute("aria-pressed"), "true")
        page.evaluate("location.hash = ''")
        self.until(page, "document.getElementById('head-name').textContent === 'Layer 0, head 0'")

    def test_the_back_button_goes_to_the_head_before(self):
        page = self.open("words")
        page.locator("#grid").click(position=page.evaluate("window.multiheadPage.placeOfHead(0, 2)"))
        self.rest(page)
        self.press(page, "ArrowDown")
        for go, name in [(page.go_back, "Layer 0, head 2"), (page.go_back, "Layer 0, head 0"), (page.go_forward, "Layer 0, head 2")]:
            go()
            self.until(page, f"document.getElementById('head-name').textContent === '{name}'")

    def test_nonsense_is_passed_over(self):
        for address in ("#layer=9&head=9", "#layer=&head=", "#query=6", "#key=-1&query=1e9", "#query=x&theme=pink&scale=3&level=no&hide=1&maps=",
                        "#%E0%A4%A", "#layer=1", "#head=2", "#query=0x2", "#__proto__=1&constructor=2"):
            page = self.open("words", address=address)
            self.rest(page)
            self.assertEqual(self.head(page), (0, 0), address)
            self.assertEqual(self.text(page, "#reads-name"), "Strongest links", address)
            self.assertTrue(page.url.endswith("#layer=0&head=0&scale=root&maps=common"), page.url)

    def test_theme_and_scale_are_kept_for_the_next_page(self):
        context = self.context()
        page = self.open("words", context=context)
        self.press(page, "t", "r", "m")
        page = self.open("cross", context=context)
        self.assertIn("scale=linear&maps=own&theme=dark", page.url)
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        page = self.open("four", context=context, address="#scale=root")
        self.assertIn("scale=root&maps=own", page.url, "an address comes first")

    def test_a_browser_that_keeps_nothing_is_no_fault(self):
        for storage in ("{ get() { throw new DOMException('no', 'SecurityError'); } }", "{ get() { return null; } }",
                        "{ get() { return { getItem() { return '[1, \"x\"'; }, setItem() { throw new Error('full'); } }; } }",
                        "{ get() { return { getItem() { return '{\"theme\": 7, \"scale\": {}}'; }, setItem() {} }; } }"):
            context = self.context()
            context.add_init_script(f"Object.defineProperty(window, 'localStorage', {storage})")
            page = self.open("words", context=context)
            self.press(page, "t", "r")
            self.assertIn("scale=linear&maps=common&theme=dark", page.url)

    def test_the_system_s_theme_is_followed_until_one_is_chosen(self):
        page = self.open("words")
        theme = "document.documentElement.dataset.theme"
        page.emulate_media(color_scheme="dark")
        self.until(page, f"{theme} === 'dark'")
        self.assertNotIn("theme", page.url)
        self.press(page, "t")
        page.emulate_media(color_scheme="light")
        page.emulate_media(color_scheme="dark")
        self.rest(page)
        self.assertEqual(page.evaluate(theme), "light")


CONTRAST = """() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parsed = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || node.closest("script, :disabled, [hidden]") || !node.checkVisibility()) continue;
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.push(parsed(getComputedStyle(each).backgroundColor));
    found.push({ text: node.textContent.trim().slice(0, 40), colour: parsed(getComputedStyle(node).color).slice(0, 3), layers });
  }
  return found;
}"""


class Access(UseTest):
    def test_text_can_be_read(self):
        """WCAG 1.4.3, of all text of the page as it is shown."""
        for scheme in ("light", "dark"):
            for case, address in [("words", ""), ("words", "#query=0"), ("words", "#key=5"), ("medium", "#query=3&key=3&scale=linear"),
                                  ("cross", "#key=1"), ("even", "#query=0")]:
                page = self.open(case, scheme=scheme, address=address)
                for help_is_open in (False, True):
                    if help_is_open:
                        self.press(page, "?")
                    found = page.evaluate(CONTRAST)
                    self.assertGreater(len(found), 20)
                    for each in found:
                        below = [255, 255, 255]
                        for *colour, alpha in reversed(each["layers"]):
                            below = [alpha * c + (1 - alpha) * b for c, b in zip(colour, below)]
                        self.assertGreaterEqual(contrast(each["colour"], below), 4.5, f"{each['text']} in {case}{address}, {scheme}")

    def test_the_colours_of_both_themes_contrast(self):
        for theme in ("light", "dark"):
            v = variables(theme)
            for text, grounds in [("ink", ["paper", "ground", "press"]), ("soft", ["paper", "ground", "press"]),
                                  ("accent", ["paper", "press"]), ("query", ["paper"]), ("key", ["paper"]), ("paper", ["ink"])]:
                for ground in grounds:
                    self.assertGreaterEqual(contrast(channels(v[text]), channels(v[ground])), 4.5, f"{text} on {ground}, {theme}")

    def test_canvases_and_controls_have_names(self):
        page = self.open("cross")
        for canvas in page.locator("canvas").all():
            self.assertEqual(canvas.get_attribute("role"), "img")
            self.assertTrue(canvas.get_attribute("aria-label"), canvas.get_attribute("id"))
        self.assertEqual(page.locator("#matrix").get_attribute("aria-label"),
                         "Map of layer 0, head 0: 3 query tokens, 5 key tokens, weights from 0 to 0.333. "
                         "Strongest links: “le” (0) to “.” (4) 0.3333, “chat” (1) to “.” (4) 0.3000, “dort” (2) to “.” (4) 0.2800.")
        self.assertTrue(page.locator("#lines").get_attribute("aria-label").startswith("Lines of layer 0, head 0: 3 query tokens"))
        self.assertEqual(page.locator("#grid").get_attribute("aria-label"), "Small maps of all 2 heads; layer 0, head 0 is open.")
        self.press(page, "ArrowRight")
        self.assertIn("layer 0, head 1 is open", page.locator("#grid").get_attribute("aria-label"))
        self.assertIn("head 1", page.locator("#matrix").get_attribute("aria-label"))
        for control in page.locator("button, input").all():
            name = control.evaluate("""node => node.ariaLabel || node.textContent.trim() || node.closest("label")?.textContent.trim()""")
            self.assertTrue(name, control.evaluate("node => node.outerHTML"))
        for box in page.locator("[tabindex]").all():
            self.assertTrue(box.get_attribute("aria-label"), box.evaluate("node => node.outerHTML"))

    def test_a_tap_shows_the_number(self):
        page = self.open("cross", context=self.context(390, 800, touch=True))
        page.locator("#matrix-box").scroll_into_view_if_needed()
        for i, j in [(1, 2), (1, 4), (2, 0)]:
            place = self.place(page, "#matrix", f"placeOfCell({i}, {j})")
            page.touchscreen.tap(place["x"], place["y"])
            self.rest(page)
            weight = f"{(1 + i + j) / (15 + 5 * i):.6f}"
            self.assertTrue(page.locator("#tip").is_visible())
            self.assertIn(weight, self.text(page, "#tip"))
            self.assertTrue(self.readout(page).endswith(f": {weight}, pinned: Esc lets go"), self.readout(page))
        page.touchscreen.tap(place["x"], place["y"])
        self.rest(page)
        self.assertFalse(page.locator("#tip").is_visible(), "a second tap lets go")
        self.assertEqual(self.text(page, "#reads-name"), "Strongest links")

    def test_a_tap_on_a_token_shows_its_link_to_the_pinned_one(self):
        page = self.open("cross", context=self.context(390, 800, touch=True), address="#query=1")
        page.locator("#text .token").nth(3 + 2).tap()
        self.rest(page)
        self.assertIn("is (2)", self.text(page, "#tip"))

    def test_a_dark_page_prints_light(self):
        page = self.open("medium", scheme="dark", address="#theme=dark")
        def look():
            return [page.evaluate("getComputedStyle(document.body).color"), self.pixel(page, "matrix", 1, 1), self.pixel(page, "grid", 1, 1)]
        dark = look()
        light_ink = channels(variables("light")["ink"])
        page.emulate_media(media="print")
        self.until(page, "document.documentElement.dataset.theme === 'light'")
        printed = look()
        self.assertEqual(channels(printed[0]), light_ink)
        self.assertEqual(printed[1:], [[255, 255, 255], [255, 255, 255]])
        page.emulate_media(media="screen")
        self.until(page, "document.documentElement.dataset.theme === 'dark'")
        self.assertEqual(look(), dark)
        self.assertIn("theme=dark", page.url)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(look(), printed, "at once, without a frame")
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        self.assertEqual(look(), dark)


class Words(UseTest):
    def test_the_tab_the_text_and_the_model_are_named(self):
        page = self.open("deep")
        self.assertEqual(page.title(), "The text that was read · deep")
        self.assertEqual(self.text(page, "#title"), "deep")
        self.assertEqual(self.text(page, "#given"), "The text that was read")
        self.assertEqual(self.text(page, "#model").strip(), "/models/deep")

    def test_the_root_is_explained(self):
        page = self.open("words")
        self.assertEqual(self.text(page, "#legend-scale"), "colour grows with the square root of the weight")
        self.press(page, "r")
        self.assertEqual(self.text(page, "#legend-scale"), "colour grows with the weight")
        self.press(page, "?")
        self.assertIn("half the colour is a quarter of the weight", self.text(page, "#help"))

    def test_what_cannot_be_seen_is_marked_everywhere(self):
        page = self.open("unseen")
        self.assertEqual(self.text(page, "#title"), "unseen[U+202E]")
        self.assertEqual(page.title(), "a text[U+2066] with a line end · unseen[U+202E]")
        self.assertEqual(self.text(page, "#notes"), "a note[U+200B]")
        shown = page.locator("#text .token").all_inner_texts()
        self.assertEqual(shown[:3], ["a[U+0001]b", "[U+0085]", "[U+007F]"])
        self.assertEqual(shown[-10:], ["⇥", "␣", "(empty)", "👩‍🍳", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩[U+200D]", "é", "◌́", "שלום"])
        svg = {node.text for node in self.svg(page, "matrix").iter("{http://www.w3.org/2000/svg}text")}
        self.press(page, "]", "]")
        self.assertEqual(self.text(page, "#reads-name"), "“[U+0085]” (1) attends to")
        self.assertIn("“[U+0085]” (1)", self.readout(page))

    def test_the_whole_class_is_marked(self):
        """Every character of Unicode without a picture of its own, between two letters."""
        blank = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
        ignorable = [0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180c, 0x180d, 0x180f, 0x2065, 0x3164, 0xffa0, 0xfff0, *range(0xfe00, 0xfe10),
                     *range(0xe0100, 0xe01f0), 0xe0000, 0xe0fff]
        others = [0x2800, 0xe000, 0xf8ff, 0xfffe, 0xffff, 0xfdd0, 0x10ffff]
        points = blank + ignorable + others
        self.assertGreater(len(points), 500)
        folder = pathlib.Path(self.folder.name)
        tokens, file = folder / "tokens.txt", folder / "listed.html"
        tokens.write_text("\n".join(f"61 {c:x} 62" for c in points) + "\n")
        subprocess.run([self.make_page, "listed", file, tokens], check=True)
        page = self.open("listed")
        shown = page.eval_on_selector_all("#text .token[data-side=keys]", "spans => spans.map(span => span.textContent)")
        names = {0x0a: "⏎", 0x09: "⇥", 0x0d: "␍", 0x20: "␣"}
        self.assertEqual(len(shown), len(points))
        for c, text in zip(points, shown):
            self.assertEqual(text, f"a{names.get(c, f'[U+{c:04X}]')}b")

    def test_one_token_is_a_page(self):
        page = self.open("one")
        self.assertIn("1 token · 1 layer · 1 head", self.text(page, "#facts"))
        self.assertEqual(self.cell(page, 0, 0), "“alone” (0) → “alone” (0): 1.000000")
        self.press(page, "]", "]", "[", "+", "-", "0", "ArrowRight")
        self.assertEqual(self.text(page, "#reads-name"), "“alone” (0) attends to")


if __name__ == "__main__":
    page_test.main()
