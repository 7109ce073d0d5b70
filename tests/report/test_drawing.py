#!/usr/bin/env python3
"""What is drawn, read from exported SVG and from pixels, and held to the formulas of tool/make_page.cpp.

    test_drawing.py MAKE_PAGE [GROUP...]

Most tests use the case "cross": 3 queries, 5 keys, probs[i,j] = (1+i+j) / (15+5i), so that rows and columns differ.
"""

import math
import re

import page_test
from colours import alike, channels, contrast, luminance, over, shade, variables
from page_test import PageTest

SVG = "{http://www.w3.org/2000/svg}"
QUERIES, KEYS = ["le", "chat", "dort"], ["the", "cat", "is", "asleep", "."]


def weight(i, j):
    return (1 + i + j) / (15 + 5 * i)


WEIGHTS = {(i, j): weight(i, j) for i in range(3) for j in range(5)}
MOST = max(WEIGHTS.values())


def numbers(text):
    return [float(part) for part in re.findall(r"-?[\d.]+", text)]


def texts(root):
    """{text: [(x, y)]} of an SVG."""
    found = {}
    for node in root.iter(SVG + "text"):
        found.setdefault(node.text, []).append(tuple(numbers(node.get("transform"))[:2]))
    return found


def rects(root):
    """[(x, y, width, height, node)], undermost first."""
    return [tuple(float(node.get(name)) for name in ("x", "y", "width", "height")) + (node,)
            for node in root.iter(SVG + "rect") if node.get("fill")]


def at(found, x, y):
    """The uppermost filled rect of [(x, y, width, height, node)] over a point."""
    over = [each for each in found if each[0] <= x <= each[0] + each[2] and each[1] <= y <= each[1] + each[3]
            and each[4].get("fill") != "none"]
    return over[-1]


class Drawing(PageTest):
    def assert_alike(self, colour, expected, what):
        self.assertTrue(alike(colour, expected), f"{what}: is {colour}, should be {expected}")

    def test_each_cell_stands_in_its_row_and_column_and_has_its_colour(self):
        for scale, address in [("root", ""), ("linear", "#scale=linear")]:
            root = self.svg(self.open("cross", address=address), "matrix")
            names, cells = texts(root), rects(root)
            for (i, j), w in WEIGHTS.items():
                (_, y), (x, _) = names[QUERIES[i]][0], names[KEYS[j]][0]
                cell = at(cells, x, y)
                self.assert_alike(channels(cell[4].get("fill")), shade(w, MOST, scale), f"cell {i}, {j}, {scale}")
                self.assertAlmostEqual(cell[0] + cell[2] / 2, x, delta=0.51, msg="a key's name is over the middle of its column")
                self.assertAlmostEqual(cell[1] + cell[3] / 2, y, delta=0.51, msg="a query's name is beside the middle of its row")
            rows = [names[name][0][1] for name in QUERIES]
            columns = [names[name][0][0] for name in KEYS]
            self.assertEqual((rows, columns), (sorted(rows), sorted(columns)), "from the top left")

    def test_the_screen_has_the_colours_of_the_weights(self):
        page = self.open("cross")
        for scale in ("root", "linear"):
            for (i, j), w in WEIGHTS.items():
                self.assertTrue(self.cell(page, i, j).startswith(f"“{QUERIES[i]}” ({i}) → “{KEYS[j]}” ({j}): {w:.6f}"))
                page.mouse.move(2, 2)
                self.rest(page)
                place = page.evaluate("window.multiheadPage.placeOfCell(%d, %d)" % (i, j))
                self.assert_alike(self.pixel(page, "matrix", place["x"], place["y"]), shade(w, MOST, scale), f"cell {i}, {j}, {scale}")
            page.locator("#scale-linear").click()
            self.rest(page)

    def test_lines_run_from_the_query_to_the_key_and_are_as_strong_as_the_weight(self):
        root = self.svg(self.open("cross"), "lines")
        names = texts(root)
        query_of = {round(names[name][0][1], 1): i for i, name in enumerate(QUERIES)}
        key_of = {round(names[name][0][1], 1): j for j, name in enumerate(KEYS)}
        drawn = {}
        for path in root.iter(SVG + "path"):
            ends = numbers(path.get("d"))
            x1, y1, x2, y2 = ends[0], ends[1], ends[-2], ends[-1]
            self.assertLess(names["le"][0][0], x1 + 10)
            self.assertLess(x1, x2)
            self.assertLess(x2 - 10, names["the"][0][0])
            drawn[query_of[round(y1, 1)], key_of[round(y2, 1)]] = float(path.get("opacity"))
        self.assertEqual(set(drawn), set(WEIGHTS))
        for link, w in WEIGHTS.items():
            self.assertAlmostEqual(drawn[link], w / MOST, delta=0.001, msg=str(link))
        self.assertEqual(max(drawn, key=drawn.get), (0, 4), "the strongest link")

    def test_numbers_and_tints_beside_lines_are_those_of_the_pinned_token(self):
        for address, side, other, values in [("#key=1", QUERIES, "key", [weight(i, 1) for i in range(3)]),
                                             ("#query=2", KEYS, "query", [weight(2, j) for j in range(5)])]:
            root = self.svg(self.open("cross", address=address), "lines")
            names, found = texts(root), rects(root)
            colour = variables("light")[other]
            for name, w in zip(side, values):
                x, y = names[name][0]
                tint = [each[4] for each in found if each[4].get("fill") == colour and abs(each[1] + each[3] / 2 - y) < 1]
                self.assertEqual(len(tint), 1, name)
                share = float(variables("light")["tint-most"]) * w / max(values)
                self.assertAlmostEqual(float(tint[0].get("opacity", 1)), share, delta=0.001)
                beside = [text for text, places in names.items() for _, at_y in places if abs(at_y - y) < 1]
                self.assertIn(f"{w:.3f}", beside)

    def test_the_text_is_tinted_by_the_row_of_a_query_and_the_column_of_a_key(self):
        most_tint = 100 * float(variables("light")["tint-most"])
        tints = "spans => spans.map(span => parseFloat(span.style.getPropertyValue('--tint')))"
        def tint(values):
            return [most_tint * math.sqrt(w / max(values)) for w in values]
        none = [0] * 3
        means = [sum(weight(i, j) for i in range(3)) / 3 for j in range(5)]
        for address, queries, keys in [("#key=1", tint([weight(i, 1) for i in range(3)]), [0] * 5),
                                       ("#query=0", none, tint([weight(0, j) for j in range(5)])),
                                       ("", none, tint(means))]:
            page = self.open("cross", address=address)
            self.rest(page)
            drawn = page.eval_on_selector_all("#text .token", tints)
            for got, expected in zip(drawn, queries + keys):
                self.assertAlmostEqual(got, expected, delta=0.6, msg=f"{address}: {drawn}")

    def test_a_pinned_cell_marks_its_row_and_itself(self):
        root = self.svg(self.open("cross", address="#query=1&key=3"), "matrix")
        names, found = texts(root), rects(root)
        (_, y), (x, _) = names["chat"][0], names["asleep"][0]
        row = [each for each in found if each[4].get("stroke") == variables("light")["query"]]
        cell = [each for each in found if each[4].get("stroke") == variables("light")["key"]]
        self.assertEqual((len(row), len(cell)), (1, 1))
        self.assertAlmostEqual(row[0][1] + row[0][3] / 2, y, delta=1)
        self.assertLess(row[0][0], names["the"][0][0] - 5)
        self.assertGreater(row[0][0] + row[0][2], names["."][0][0] + 5)
        self.assertAlmostEqual(cell[0][0] + cell[0][2] / 2, x, delta=1)
        self.assertAlmostEqual(cell[0][1] + cell[0][3] / 2, y, delta=1)
        root = self.svg(self.open("cross", address="#key=3"), "matrix")
        column = [each for each in rects(root) if each[4].get("stroke") == variables("light")["key"]]
        self.assertAlmostEqual(column[0][0] + column[0][2] / 2, texts(root)["asleep"][0][0], delta=1)
        self.assertGreater(column[0][3], 2 * column[0][2])

    def test_most_read_is_the_mean_over_rows(self):
        page = self.open("cross")
        means = sorted(((sum(weight(i, j) for i in range(3)) / 3, KEYS[j]) for j in range(5)), reverse=True)
        self.assertEqual([name for name, _ in self.list(page, "read-by")], [name for _, name in means])
        for (_, shown), (mean, _) in zip(self.list(page, "read-by"), means):
            self.assertAlmostEqual(shown, mean, delta=5.1e-5)

    def test_a_large_map_is_in_place_to_the_pixel(self):
        page = self.open("long")
        while page.evaluate("window.multiheadPage.placeOfCell(0, 1).x - window.multiheadPage.placeOfCell(0, 0).x") < 2.9:
            page.locator("#zoom-in").click()
            self.rest(page)
        most = float(self.text(page, "#legend-high"))
        edge = page.evaluate("window.multiheadPage.placeOfCell(0, 0)")
        width = page.evaluate("window.multiheadPage.placeOfCell(0, 1).x") - edge["x"]
        self.assertEqual(width, 3)
        view = page.locator("#matrix").bounding_box()
        seen = [(i, j) for i in range(0, 400, 37) for j in range(0, 400, 41)]
        seen = [((i, j), page.evaluate("window.multiheadPage.placeOfCell(%d, %d)" % (i, j))) for i, j in seen]
        seen = [(cell, place) for cell, place in seen if 60 < place["x"] < view["width"] - 20 and 60 < place["y"] < view["height"] - 20]
        self.assertGreater(len(seen), 5)
        for (i, j), place in seen:
            w = float(self.cell(page, i, j).split(": ")[1])
            page.mouse.move(2, 2)
            self.rest(page)
            for dx in (-1, 0, 1):
                for dy in (-1, 0, 1):
                    self.assert_alike(self.pixel(page, "matrix", place["x"] + dx, place["y"] + dy), shade(w, most),
                                      f"cell {i}, {j}, pixel {dx}, {dy}")

    def test_a_large_map_in_an_svg_begins_at_its_axes(self):
        root = self.svg(self.open("long"), "matrix")
        image = root.find(f".//{SVG}image")
        x, y, width, height = (float(image.get(name)) for name in ("x", "y", "width", "height"))
        cell = width / 400
        self.assertEqual(height, width)
        across = [each for each in rects(root) if (each[2], each[3]) == (1, 4)]
        down = [each for each in rects(root) if (each[2], each[3]) == (4, 1)]
        self.assertAlmostEqual(across[0][0], x + cell / 2, delta=0.01)
        self.assertAlmostEqual(down[0][1], y + cell / 2, delta=0.01)

    def test_small_maps_share_a_scale_or_have_their_own(self):
        page = self.open("cross")
        for button, most in [("#maps-common", 1), ("#maps-own", MOST)]:
            page.locator(button).click()
            self.rest(page)
            middle = page.evaluate("window.multiheadPage.placeOfHead(0, 0)")
            next_one = page.evaluate("window.multiheadPage.placeOfHead(0, 1)")
            size = next_one["x"] - middle["x"] - 5
            for (i, j), w in WEIGHTS.items():
                x = middle["x"] - size / 2 + (j + 0.5) * size / 5
                y = middle["y"] - size / 2 + (i + 0.5) * size / 3
                self.assert_alike(self.pixel(page, "grid", x, y), shade(w, most), f"{button}, cell {i}, {j}")
        self.assertEqual(self.text(page, "#grid-legend-high"), "each head’s largest weight")

    def test_an_even_head_is_as_pale_as_its_weights(self):
        page = self.open("deep")
        for button, most in [("#maps-common", 1), ("#maps-own", 1 / 24)]:
            page.locator(button).click()
            self.rest(page)
            place = page.evaluate("window.multiheadPage.placeOfHead(1, 2)")
            self.assert_alike(self.pixel(page, "grid", place["x"], place["y"]), shade(1 / 24, most), button)

    def test_text_in_figures_can_be_read(self):
        """WCAG 1.4.3: 4.5 to 1 against all that is painted under a text's anchor."""
        for scheme in ("light", "dark"):
            for case, address in [("words", "#query=0"), ("words", "#key=5"), ("words", "#query=3&key=2"), ("cross", ""), ("cross", "#key=4")]:
                page = self.open(case, scheme=scheme, address=address)
                for figure in ("matrix", "lines"):
                    root = self.svg(page, figure)
                    found = rects(root)
                    for node in root.iter(SVG + "text"):
                        x, y = numbers(node.get("transform"))[:2]
                        below = [255, 255, 255]
                        for left, top, width, height, rect in found:
                            if left <= x <= left + width and top <= y <= top + height and rect.get("fill") != "none":
                                below = over(channels(rect.get("fill")), float(rect.get("opacity", 1)), below)
                        ratio = contrast(channels(node.get("fill")), below)
                        self.assertGreaterEqual(ratio, 4.5, f"{node.text} in {figure} of {case}{address}, {scheme}")

    def test_the_ramp_rises_steadily(self):
        for theme in ("light", "dark"):
            lightness = [luminance(shade(n / 255, 1, "linear", theme)) for n in range(256)]
            self.assertEqual(lightness, sorted(lightness, reverse=theme == "light"))


if __name__ == "__main__":
    page_test.main()
