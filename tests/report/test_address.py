#!/usr/bin/env python3
"""What the keyboard and the address do.

    test_address.py MAKE_PAGE [GROUP...]
"""

import page_test
from page_test import PageTest


class Keyboard(PageTest):
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


class Address(PageTest):
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

    def test_the_mean_map_of_a_layer(self):
        page = self.open("medium")
        self.press(page, "ArrowDown")
        weight = lambda: float(self.cell(page, 3, 2).rpartition(": ")[2].rstrip(", pinned: Esc lets go"))
        heads = []
        for _ in range(12):
            heads.append(weight())
            self.press(page, "ArrowRight")
        self.assertGreater(max(heads), min(heads))
        page.locator("#mean").click()
        self.until(page, "document.querySelector('#head-name').textContent === 'Layer 1, mean of 12 heads'")
        self.assertAlmostEqual(weight(), sum(heads) / 12, delta=1.5e-6)
        self.assertIn("mean=layer", page.url)
        self.assertTrue(page.locator("#matrix").get_attribute("aria-label").startswith("Map of layer 1, mean of 12 heads: "))
        self.assertEqual(self.saved(page, "#matrix-svg").name, "layer1-mean-matrix.svg")
        page.reload()
        self.until(page, "document.querySelector('#head-name').textContent === 'Layer 1, mean of 12 heads'")
        self.press(page, "a")
        self.until(page, "document.querySelector('#head-name').textContent.startsWith('Layer 1, head')")
        self.assertNotIn("mean", page.url)

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


if __name__ == "__main__":
    page_test.main()
