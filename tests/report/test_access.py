#!/usr/bin/env python3
"""The page for everybody: contrast, names, touch, print, and what is said in words.

    test_access.py MAKE_PAGE [GROUP...]
"""

import pathlib
import subprocess
import sys
import unicodedata

import page_test
from colours import channels, contrast, variables
from page_test import PageTest


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


class Access(PageTest):
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


class Words(PageTest):
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
