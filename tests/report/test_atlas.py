#!/usr/bin/env python3
"""The page of `multihead heads`: its views, keys, address and files.

    test_atlas.py MAKE_ATLAS [GROUP...]
"""

import copy
import csv
import json
import pathlib
import struct
import subprocess
import unittest
import xml.etree.ElementTree

import atlas_json
import page_test
from colours import contrast
from page_test import PageTest
from test_access import CONTRAST

HOSTILE = "</script><img src=x onerror=\"window.broken=1\">"
SVG = "{http://www.w3.org/2000/svg}"


def documents():
    small = atlas_json.model(3, 4)
    hostile = atlas_json.model(2, 2)
    hostile["model"] = f"/models/{HOSTILE}"
    hostile["heads"][0].update(role=HOSTILE, labels=[HOSTILE, "=1+1"])
    hostile["heads"][0]["roles"][HOSTILE] = {"lift": 0.5, "threshold": 0.4, "passed": True}
    hostile["heads"][0]["statistics"][HOSTILE] = 1
    pruned = atlas_json.model(2, 4)
    del pruned["heads"][1]  # its similarity is then not one row a head
    other = copy.deepcopy(small)
    other["heads"][5].update(role="broad", labels=["broad"])
    other["model"] = "/models/other"
    every = atlas_json.model(1, len(atlas_json.ROLES) + 1)
    for head, role in zip(every["heads"], atlas_json.ROLES + ["syntactic"]):
        head.update(role=role, labels=[role])
    return {"every": every, "small": small, "roles": atlas_json.model(3, 4, full=False), "hostile": hostile, "pruned": pruned, "other": other,
            "large": atlas_json.model(24, 16), "bert": atlas_json.model(12, 12)}


class AtlasTest(PageTest):
    documents = documents()

    def json_file(self, case):
        path = pathlib.Path(self.folder.name) / f"{case}.json"
        path.write_text(json.dumps(self.documents[case]), encoding="utf-8")
        return path

    def file_of(self, case):
        path = pathlib.Path(self.folder.name) / f"{case}.html"
        title = HOSTILE if case == "hostile" else f"model {case}"
        subprocess.run([self.make_page, title, self.json_file(case), path], check=True)
        return path

    def head_at(self, page, n):
        return page.locator(f"#figure .cell[data-n='{n}']").first

    def shown(self, page):
        """Indices of heads that are not dimmed."""
        return page.eval_on_selector_all("#figure .cell", "all => all.filter(e => !e.hasAttribute('opacity')).map(e => Number(e.dataset.n))")

    def select(self, page, label, value):
        page.get_by_label(label, exact=True).select_option(value)

    def text(self, page, selector):
        return page.locator(selector).inner_text()

    def hash(self, page):
        return page.evaluate("location.hash")


class Grid(AtlasTest):
    def test_every_head_stands_at_its_place_with_its_role(self):
        page = self.open("small")
        heads = self.documents["small"]["heads"]
        self.assertEqual(page.locator("#figure .cell").count(), len(heads))
        places = {}
        for n, head in enumerate(heads):
            label = self.head_at(page, n).get_attribute("aria-label")
            self.assertTrue(label.startswith(f"Layer {head['layer']}, head {head['head']}: {', '.join(head['labels']) or 'unassigned'}"), label)
            box = self.head_at(page, n).bounding_box()
            places[head["layer"], head["head"]] = (box["x"], box["y"])
        self.assertLess(places[0, 0][0], places[0, 1][0])
        self.assertAlmostEqual(places[0, 0][1], places[0, 3][1], delta=2)
        self.assertLess(places[0, 0][1], places[1, 0][1])

    def test_a_click_shows_the_numbers_of_the_head(self):
        page = self.open("small")
        self.head_at(page, 5).click()
        head = self.documents["small"]["heads"][5]
        self.assertEqual(self.text(page, "#details-name"), "Layer 1, head 1")
        details = self.text(page, "#details-body")
        role = head["labels"][0]
        self.assertIn(f"{head['roles'][role]['lift']:.3f}", details)
        self.assertIn(f"{head['roles'][role]['interval'][0]:.3f}".replace("-", "−"), details)
        self.assertIn("looks alike 0.98, writes alike 0.12, cosine −0.50", details)
        self.assertIn("Not judged: induction", details)
        self.assertIn("head=1.1", self.hash(page))

    def test_arrow_keys_walk_and_the_focus_follows(self):
        page = self.open("small")
        self.head_at(page, 0).focus()
        for key, name in [("ArrowRight", "Layer 0, head 1"), ("ArrowDown", "Layer 1, head 1"), ("ArrowLeft", "Layer 1, head 0"),
                          ("ArrowUp", "Layer 0, head 0"), ("ArrowUp", "Layer 0, head 0")]:
            page.keyboard.press(key)
            self.assertEqual(self.text(page, "#details-name"), name)
            self.assertTrue(page.evaluate("document.activeElement.getAttribute('aria-pressed') === 'true'"))
        self.assertEqual(page.locator("#figure .cell[tabindex='0']").count(), 1)

    def test_size_is_importance_by_area(self):
        page = self.open("small")
        heads = self.documents["small"]["heads"]
        radius = lambda n: float(self.head_at(page, n).locator("circle").first.get_attribute("r"))
        ranked = sorted(range(len(heads)), key=lambda n: heads[n]["importance"])
        self.assertEqual(sorted(range(len(heads)), key=radius), ranked)
        most = ranked[-1]
        middle = next(n for n in ranked if heads[n]["importance"] > 0.2 * heads[most]["importance"])
        self.assertAlmostEqual((radius(middle) / radius(most)) ** 2, heads[middle]["importance"] / heads[most]["importance"], delta=0.01)
        self.select(page, "Size", "")
        self.assertEqual(len({radius(n) for n in range(len(heads))}), 1)

    def test_a_role_or_a_search_leaves_its_heads(self):
        page = self.open("small")
        heads = self.documents["small"]["heads"]
        role = heads[2]["labels"][1]
        page.locator(f"#roles [data-role='{role}']").click()
        self.assertEqual(self.shown(page), [n for n, head in enumerate(heads) if role in head["labels"]])
        page.keyboard.press("Escape")
        self.assertEqual(len(self.shown(page)), len(heads))
        page.get_by_label("Find").fill("1.")
        self.assertEqual(self.shown(page), [4, 5, 6, 7])
        page.get_by_label("Find").fill("unassigned")
        self.assertEqual(self.shown(page), [n for n, head in enumerate(heads) if not head["labels"]])

    def test_second_roles_are_striped_and_groups_ringed(self):
        page = self.open("small")
        heads = self.documents["small"]["heads"]
        striped = [n for n in range(len(heads)) if self.head_at(page, n).locator("path[fill^='url']").count()]
        self.assertEqual(striped, [n for n, head in enumerate(heads) if len(head["labels"]) > 1])
        self.assertIn("in group 0 of 2", self.head_at(page, 1).get_attribute("aria-label"))

    def test_a_removed_head_leaves_its_place(self):
        page = self.open("pruned")
        self.assertEqual(page.locator("#figure .cell").count(), 7)
        self.assertEqual(page.locator("#figure svg > circle").count(), 1)
        page.locator("#views [data-view='similarity']").click()
        self.assertIn("does not compare", page.locator("#figure svg").text_content())

    def test_it_says_what_the_file_lacks(self):
        page = self.open("roles")
        self.assertEqual(self.text(page, "#missing"), "Not in this file: importance, which heads are alike, places on the map.")
        for view in ("table", "similarity", "map", "compare", "prune", "grid"):
            page.locator(f"#views [data-view='{view}']").click()
            self.assertGreater(page.locator("#figure > *").count(), 0)
        self.assertEqual(self.text(self.open("small"), "#missing"), "")


class Views(AtlasTest):
    def test_the_table_sorts_and_opens(self):
        page = self.open("small", address="#view=table")
        heads = self.documents["small"]["heads"]
        names = lambda: page.locator("#figure tbody tr td:first-child").all_inner_texts()
        self.assertEqual(names(), [f"{h['layer']}.{h['head']}" for h in heads])
        page.locator("#figure th button[data-key='confidence']").click()
        down = sorted(heads, key=lambda h: -h["statistics"]["confidence"])
        self.assertEqual(names(), [f"{h['layer']}.{h['head']}" for h in down])
        self.assertEqual(page.locator("#figure th[aria-sort]").get_attribute("aria-sort"), "descending")
        page.locator("#figure th button[data-key='confidence']").click()
        self.assertEqual(names(), [f"{h['layer']}.{h['head']}" for h in reversed(down)])
        page.get_by_role("button", name="2.3").first.click()
        self.assertEqual(self.text(page, "#details-name"), "Layer 2, head 3")

    def test_a_pair_of_the_matrix_tells_its_numbers(self):
        page = self.open("small", address="#view=similarity")
        similarity = self.documents["small"]["similarity"]
        page.locator("#figure svg").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        self.assertIn("0.1 and 0.2: looks alike " + f"{similarity['looks_alike'][1][2]:.2f}", self.text(page, "#readout"))
        self.assertIn("with=0.2", self.hash(page))
        box = page.locator("#figure svg image").bounding_box()
        cell = box["width"] / 12
        page.mouse.move(box["x"] + 7.5 * cell, box["y"] + 3.5 * cell)
        self.assertIn("0.3 and 1.3:", self.text(page, "#readout"))

    def test_the_matrix_has_the_colours_of_its_numbers(self):
        page = self.open("small", address="#view=similarity&measure=cosine")
        pixels = page.evaluate("""async () => {
          const image = new Image();
          image.src = document.querySelector("#figure image").getAttribute("href");
          await image.decode();
          const canvas = new OffscreenCanvas(12, 12);
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          return [...context.getImageData(0, 0, 12, 12).data];
        }""")
        for i, row in enumerate(self.documents["small"]["similarity"]["cosine"]):
            for j, x in enumerate(row):
                r, g, b = pixels[4 * (12 * i + j):][:3]
                (self.assertGreaterEqual if x > 0.01 else self.assertLessEqual if x < -0.01 else lambda *_: None)(b - r, 0, (i, j, x))

    def test_near_on_the_map_is_near_in_the_file(self):
        page = self.open("small", address="#view=map")
        heads = self.documents["small"]["heads"]
        centre = lambda n: (lambda b: (b["x"] + b["width"] / 2, b["y"] + b["height"] / 2))(self.head_at(page, n).bounding_box())
        for axis, sign in [(0, 1), (1, -1)]:
            order = sorted(range(len(heads)), key=lambda n: sign * heads[n]["position"][axis])
            self.assertEqual(sorted(range(len(heads)), key=lambda n: centre(n)[axis]), order)

    def test_two_heads_stand_beside_each_other(self):
        page = self.open("small", address="#view=compare&head=0.1&with=2.2")
        table = [row.split("\t") for row in self.text(page, "#figure table").splitlines()]
        heads = self.documents["small"]["heads"]
        a, b = heads[1]["statistics"]["confidence"], heads[10]["statistics"]["confidence"]
        found = next(row for row in table if row[0] == "confidence")
        self.assertAlmostEqual(float(found[3].replace("−", "-")), b - a, delta=0.006)

    def test_a_second_model_is_opened_from_a_file(self):
        page = self.open("small", address="#view=compare")
        page.locator("#other-file").set_input_files(self.json_file("other"))
        page.wait_for_function("document.querySelectorAll('#figure svg').length === 2")
        self.assertIn("1 heads have other roles there", self.text(page, "#figure"))
        first = page.locator("#figure table").nth(1).locator("tbody tr").first.inner_text().split("\t")
        self.assertEqual((first[0], first[2]), ("1.1", "broad"))
        page.get_by_role("button", name="Close it").click()
        self.assertEqual(page.locator("#figure svg").count(), 0)

    def test_a_file_that_is_no_model_is_refused_with_its_reason(self):
        page = self.open("small", address="#view=compare")
        for text, reason in [("{", "it is not JSON"), ("[1]", "it has no list of heads"), ('{"heads": []}', "it has no list of heads"),
                             ('{"heads": [null]}', "entry 0 of its heads has no layer or number"),
                             ('{"heads": [{"layer": 0, "head": 0}, {"layer": 0, "head": 0}]}', "a head is listed twice"),
                             ('{"heads": [{"layer": 0, "head": 99999999}]}', "entry 0 of its heads has no layer or number")]:
            path = pathlib.Path(self.folder.name) / "bad.json"
            path.write_text(text)
            page.locator("#other-file").set_input_files(path)
            self.assertEqual(page.locator("#readout.failed").inner_text(),
                             f"bad.json was not opened: {reason}. It should be what multihead heads --json writes.")
            page.locator("#views [data-view='compare']").click()

    def test_odd_values_of_a_file_break_nothing(self):
        page = self.open("small", address="#view=compare")
        path = pathlib.Path(self.folder.name) / "odd.json"
        path.write_text(json.dumps({"model": 7, "similarity": {"cosine": [[1]]}, "layers": "x", "text": None,
                                    "heads": [{"layer": 0, "head": 0, "roles": {"__proto__": {"lift": "x"}, "first": 3}, "labels": [1, {}],
                                               "nearest": [{}], "position": ["a"], "statistics": [1], "importance": "1"}]}))
        page.locator("#other-file").set_input_files(path)
        page.wait_for_function("document.querySelectorAll('#figure svg').length === 2")


class Prune(AtlasTest):
    def report(self, **changes):
        point = lambda removed, heads, loss: {"removed": removed, "heads": [{"layer": 0, "head": h} for h in heads], "loss": loss, "agreement": 1 - loss,
                                              "nearest": None, "compensated": True, "random": {"seeds": 3, "loss": {"min": 2 * loss, "median": 3 * loss, "max": 4 * loss},
                                                                                               "agreement": None, "nearest": None}}
        path = pathlib.Path(self.folder.name) / "prune.json"
        path.write_text(json.dumps({"model": "/models/small", "method": "fold", "curve": [point(1, [2], 0.1), point(3, [0, 3], 0.2)]} | changes))
        return path

    def gone(self, page):
        return page.eval_on_selector_all("#figure .cell[aria-label$='removed']", "all => all.map(e => Number(e.dataset.n))")

    def test_the_slider_shows_measured_points_and_their_heads(self):
        page = self.open("small", address="#view=prune")
        page.locator("#prune-file").set_input_files(self.report())
        page.wait_for_selector("#prune-step")
        self.assertIn("2 steps, 3 of 12 heads removed: loss 0.20; removed at random 0.40 to 0.80", self.text(page, "#readout"))
        self.assertEqual(self.gone(page), [0, 2, 3])
        page.locator("#prune-step").focus()
        page.keyboard.press("ArrowLeft")
        self.assertEqual(self.text(page, "#readout"), "1 of 12 heads removed: loss 0.10; removed at random 0.20 to 0.40")
        self.assertEqual(self.gone(page), [2])
        page.keyboard.press("ArrowLeft")
        self.assertEqual(self.gone(page), [])
        self.select(page, "Quality", "nearest")
        self.assertEqual(page.locator("#figure svg svg").first.locator("circle").count(), 1)
        rows = json.loads(self.saved(page, "#save-json").read_text(encoding="utf-8"))
        self.assertEqual([(row["removed"], row["loss"], row["random loss max"]) for row in rows], [(0, 0, None), (1, 0.1, 0.4), (3, 0.2, 0.8)])
        xml.etree.ElementTree.parse(self.saved(page, "#save-svg"))
        self.assertEqual(self.saved(page, "#save-png").read_bytes()[:4], b"\x89PNG")

    def test_a_report_of_something_else_is_refused(self):
        page = self.open("small", address="#view=prune")
        far = {"removed": 1, "heads": [{"layer": 7, "head": 7}], "loss": 0}
        for changes, reason in [({"curve": []}, "it has no curve"), ({"curve": [{"removed": 0}]}, "the heads that its curve removes do not grow in number"),
                                ({"curve": [far]}, "it removes heads that this model does not have")]:
            page.locator("#prune-file").set_input_files(self.report(**changes))
            self.assertEqual(page.locator("#readout.failed").inner_text(),
                             f"prune.json was not opened: {reason}. It should be what multihead prune --json writes.")
            page.locator("#views [data-view='prune']").click()


class Files(AtlasTest):
    def test_every_view_is_saved_in_four_forms(self):
        page = self.open("small")
        for view in ("grid", "table", "similarity", "map", "compare"):
            page.locator(f"#views [data-view='{view}']").click()
            root = xml.etree.ElementTree.parse(self.saved(page, "#save-svg")).getroot()
            self.assertEqual(root.tag, f"{SVG}svg")
            self.assertGreater(len(root), 5)
            picture = self.saved(page, "#save-png").read_bytes()
            self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", picture[16:24])
            self.assertAlmostEqual(width, 2 * float(root.get("width")), delta=3)
            self.assertAlmostEqual(height, 2 * float(root.get("height")), delta=3)
            rows = json.loads(self.saved(page, "#save-json").read_text(encoding="utf-8"))
            with open(self.saved(page, "#save-csv"), encoding="utf-8", newline="") as file:
                lines = list(csv.reader(file))
            self.assertEqual(lines[0], list(rows[0]))
            self.assertEqual(len(lines) - 1, len(rows))

    def test_numbers_are_saved_as_they_are(self):
        page = self.open("small")
        rows = json.loads(self.saved(page, "#save-json").read_text(encoding="utf-8"))
        for row, head in zip(rows, self.documents["small"]["heads"], strict=True):
            self.assertEqual((row["layer"], row["head"], row["importance"]), (head["layer"], head["head"], head["importance"]))
            self.assertEqual(row["lift first"], head["roles"]["first"]["lift"])
            self.assertIsNone(row.get("lift induction"))

    def test_a_formula_stays_text_in_a_spreadsheet(self):
        page = self.open("hostile", address="#view=table")
        self.documents["hostile"]["heads"][0]["labels"] = ["=1+1"]
        page = self.open("hostile", address="#view=table")
        self.assertIn("'=1+1", self.saved(page, "#save-csv").read_text(encoding="utf-8"))


class Whole(AtlasTest):
    def test_markup_stays_text(self):
        page = self.open("hostile")
        self.assertEqual(page.title(), HOSTILE)
        self.assertEqual(self.text(page, "#title"), HOSTILE)
        for view in ("table", "similarity", "map", "compare", "prune", "grid"):
            page.locator(f"#views [data-view='{view}']").click()
            self.assertEqual(page.locator("main img").count(), 0)
            xml.etree.ElementTree.parse(self.saved(page, "#save-svg"))
        self.assertIsNone(page.evaluate("window.broken ?? null"))
        self.assertIn(HOSTILE.replace(" ", "␣"), self.text(page, "#details-body"))

    def test_the_address_holds_the_view(self):
        address = "#view=table&head=2.1&with=0.3&role=first&search=f&size=confidence&measure=cosine&quality=nearest&order=groups&sort=distance&down=1&theme=dark"
        page = self.open("small", address=address)
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        page.locator("#views [data-view='grid']").click()
        self.assertEqual(self.hash(page), address.replace("table", "grid"))
        page.go_back()
        self.assertEqual(page.locator("#views [aria-pressed='true']").inner_text(), "Table")

    def test_an_address_that_says_nonsense_opens_the_page(self):
        page = self.open("small", address="#view=x&head=99.1&with=-&role=%00&size=__proto__&measure=1&order=&sort=constructor&theme=red")
        self.assertEqual(self.text(page, "#details-name"), "Layer 0, head 0")
        self.assertEqual(page.locator("#views [aria-pressed='true']").inner_text(), "Grid")

    def test_text_can_be_read(self):
        """WCAG 1.4.3 outside of figures."""
        for scheme in ("light", "dark"):
            for view in ("grid", "table", "compare"):
                page = self.open("small", scheme=scheme, address=f"#view={view}")
                for each in page.evaluate(CONTRAST):
                    below = [255, 255, 255]
                    for *colour, alpha in reversed(each["layers"]):
                        below = [alpha * c + (1 - alpha) * b for c, b in zip(colour, below)]
                    if each["text"].startswith("Layer ") or len(each["text"]) < 3:
                        continue  # in a circle: the next test
                    self.assertGreaterEqual(contrast(each["colour"], below), 4.5, f"{each['text']} in {view}, {scheme}")

    def test_letters_in_circles_can_be_read(self):
        page = self.open("every")
        pairs = page.eval_on_selector_all("#roles .swatch", "all => all.filter(e => e.style.background).map(e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor])")
        self.assertEqual(len(pairs), len(atlas_json.ROLES) + 1 - 1)  # parked is hollow
        for text, ground in pairs:
            numbers = [[float(x) for x in colour[4:-1].split(",")] for colour in (text, ground)]
            self.assertGreaterEqual(contrast(*numbers), 4.5, (text, ground))

    def test_it_fits_narrow_and_wide_windows(self):
        for case in ("small", "bert", "large"):
            for width in (400, 1400):
                page = self.open(case, context=self.context(width, 900))
                for view in ("grid", "table", "similarity", "map", "compare"):
                    page.locator(f"#views [data-view='{view}']").click()
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width, f"{case}, {view}")

    def test_controls_have_names(self):
        page = self.open("small")
        for view in ("table", "similarity", "map", "compare", "prune", "grid"):
            page.locator(f"#views [data-view='{view}']").click()
            for control in page.locator("button, input, select, [tabindex]").all():
                name = control.evaluate("node => node.ariaLabel || node.labels?.[0]?.textContent.trim() || node.textContent.trim()")
                self.assertTrue(name, control.evaluate("node => node.outerHTML"))


if __name__ == "__main__":
    page_test.main()
