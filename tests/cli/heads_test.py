#!/usr/bin/env python3
"""multihead heads: roles of heads on a text.

    heads_test.py MULTIHEAD [GROUP...]

Group HeadsOfMiniLM needs the model of scripts/get-model and UD English PUD below $MULTIHEAD_DATA (or ../shared/data); exit code
77 (skipped, saying why) where one is absent.
"""

import json
import os
import pathlib
import sys

import cli_support
from cli_support import MODEL, CommandTest

ROLES = ["previous", "next", "self", "offset", "parked", "first", "separator", "punctuation", "local", "long_range",
         "broad", "duplicate", "induction", "rare_word"]
WORDS = "the cat sat on mat dog ran to red big house tree , ."


class Heads(CommandTest):
    """Random weights: what is said of them does not matter, its form does."""

    def model(self, **changes):
        return self.small_model(words=WORDS, **changes)

    def text(self, content=WORDS * 9, name="text.txt"):
        data = content if isinstance(content, bytes) else content.encode()
        (self.folder / name).write_bytes(data)
        return name

    def heads(self, *arguments, content=WORDS * 9, **changes):
        code, out, err = self.run_it("heads", "--text", self.text(content), "--model", self.model(**changes), "--tokens",
                                     "20", "--json", "heads.json", *arguments)
        self.assertEqual((code, err), (0, ""))
        return json.loads((self.folder / "heads.json").read_text(encoding="utf-8")), out

    def test_the_page_has_the_numbers_of_the_document(self):
        found, out = self.heads("--html", "heads.html")
        self.assertTrue(out.endswith("\nPage: heads.html\nNumbers: heads.json\n"), out)
        page = (self.folder / "heads.html").read_text(encoding="utf-8")
        data = json.loads(page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])
        self.assertEqual(data["title"], "model")
        self.assertEqual(data["heads"], found["heads"])

    def test_the_page_goes_to_standard_output(self):
        out = self.output_of("heads", "--text", self.text(), "--model", self.model(), "--tokens", "20", "--html", "-", "--no-null")
        self.assertTrue(out.startswith("<!doctype html>"))
        self.assertTrue(out.endswith("</html>\n"))

    def test_the_page_and_the_document_are_two_files(self):
        self.assert_refused(2, 'heads: --html must not name the file of --json, got "x"', "heads", "--text", self.text(),
                            "--json", "x", "--html", "x", "--model", self.model())

    def test_the_document(self):
        found, out = self.heads()
        self.assertEqual(found["model"], "model")
        self.assertEqual(found["text"], {"segments": 7, "segments_in_text": 7, "tokens_per_segment": 20, "tokens": 126,
                                         "distinct_tokens": 14})
        self.assertEqual([(head["layer"], head["head"]) for head in found["heads"]], [(0, 0), (0, 1), (1, 0), (1, 1)])
        for head in found["heads"]:
            self.assertEqual(list(head["roles"]), ROLES)
            passed = [name for name, score in head["roles"].items() if score and score["passed"]]
            self.assertEqual(sorted(head["labels"]), sorted(passed))
            self.assertEqual(head["role"], head["labels"][0] if head["labels"] else "unassigned")
            for name, score in head["roles"].items():
                if score is None:
                    continue
                self.assertGreater(score["eligible"], 0)
                if score["interval"]:
                    low, high = score["interval"]
                    self.assertLessEqual(low, high)
                    self.assertTrue(low - 0.2 <= score["lift"] <= high + 0.2, (name, score))
                if name not in ("rare_word", "broad"):
                    self.assertAlmostEqual(score["lift"], (score["mass"] - score["chance"]) / (1 - score["chance"]), 9)
            statistics = head["statistics"]
            self.assertGreater(statistics["effective_keys"], 1)
            self.assertLessEqual(statistics["effective_keys"], 20)
            self.assertIn(statistics["depends_on"], ("position", "content", "both"))
        for layer in (0, 1):
            shares = [head["statistics"]["output_norm_share"] for head in found["heads"] if head["layer"] == layer]
            self.assertAlmostEqual(sum(shares) / len(shares), 1, 9)
        self.assertEqual(set(found["null"]), set(ROLES))
        self.assertIn("model: 2 layers, 4 heads, 7 of 7 segments, 126 tokens", out)

    def test_what_heads_have_in_common(self):
        found, out = self.heads(num_heads=3, d_model=12, pruned={1: [0]})
        self.assertEqual([(layer["layer"], layer["num_heads"]) for layer in found["layers"]], [(0, 3), (1, 2)])
        for layer in found["layers"]:
            self.assertTrue(1 <= layer["effective_heads"] <= layer["num_heads"])
            self.assertTrue(0 < layer["averaging_loss"] < 1)
            heads = {head["head"]: head for head in found["heads"] if head["layer"] == layer["layer"]}
            order = layer["removal_order"]
            self.assertEqual(sorted(step["head"] for step in order), sorted(heads))
            self.assertEqual(order[0]["r2"], max(head["replaceable"] for head in heads.values()))
            self.assertEqual(order[0]["r2"], heads[order[0]["head"]]["replaceable"])
            self.assertRegex(out, rf"(?m)^layer {layer['layer']}: effective heads \d\.\d of {layer['num_heads']}, averaging "
                             rf"loss 0\.\d\d, first to replace {layer['layer']}\.{order[0]['head']} \(R2 ")
        for name in ("looks_alike", "writes_alike", "cosine"):
            matrix = found["similarity"][name]
            self.assertEqual([len(row) for row in matrix], [5] * 5)
            for i in range(5):
                self.assertEqual(matrix[i][i], 1)
                for j in range(5):
                    self.assertEqual(matrix[i][j], matrix[j][i])
                    self.assertTrue((-1 if name == "cosine" else 0) <= matrix[i][j] <= 1)
        names = [(head["layer"], head["head"]) for head in found["heads"]]
        for i, head in enumerate(found["heads"]):
            self.assertTrue(0 <= head["cluster"] < 5)
            self.assertEqual(len(head["position"]), 2)
            self.assertEqual(len(head["nearest"]), 3)
            for near in head["nearest"]:
                j = names.index((near["layer"], near["head"]))
                for name in ("looks_alike", "writes_alike", "cosine"):
                    self.assertEqual(near[name], found["similarity"][name][i][j])
            alike = [near["writes_alike"] for near in head["nearest"]]
            self.assertEqual(alike, sorted(alike, reverse=True))
        self.assertEqual(found["similarity"]["queries"], 126 + 2 * 7)
        self.assertEqual(set(found["similarity"]["summary"]), {"looks_alike", "writes_alike"})
        self.assertEqual(set(found["similarity"]["null"]), {"looks_alike", "writes_alike"})
        self.assertRegex(out, r"the most alike: \d\.\d and \d\.\d \(0\.\d\d\)\.|Near-duplicates: \d of 10 pairs:")
        self.assertEqual([(layer["fit_tokens"], layer["fit_inputs"]) for layer in found["layers"]], [(80, 8), (80, 4)])
        self.assertNotIn("R2 is too low", out)
        _, out = self.heads(content=WORDS * 3, num_heads=3, d_model=12)
        self.assertIn("R2 is too low: it was fitted on 20 tokens with 8 inputs each; give more text or --segments.", out)
        found, out = self.heads(content="cat sat")  # one segment: nothing is held out
        self.assertIsNone(found["layers"][0]["removal_order"])
        self.assertIsNone(found["heads"][0]["replaceable"])
        self.assertIsNone(found["similarity"]["half_difference"])
        self.assertNotIn("first to replace", out)

    def test_how_much_the_model_needs_each_head(self):
        found, out = self.heads("--ablation", "all")
        self.assertLessEqual(found["ablation_segments"], 16)
        scores = {"sensitivity", "sensitivity_normalised", "fisher", "output_norm", "confidence", "variance"}
        modes = ["zero", "mean", "uniform", "pattern"]
        self.assertEqual(set(found["agreement"]), scores | set(modes[1:]))
        for each in found["agreement"].values():
            self.assertTrue(-1 <= each["spearman"] <= 1 and 0 <= each["top20_overlap"] <= 1)
        for head in found["heads"]:
            self.assertEqual(set(head["importances"]), scores | {"ablation"})
            self.assertEqual(list(head["importances"]["ablation"]), modes)
            self.assertEqual(head["importance"], head["importances"]["ablation"]["zero"]["value"])
            for loss in head["importances"]["ablation"].values():
                self.assertTrue(0 <= loss["interval"][0] <= loss["value"] <= loss["interval"][1] <= 2)
        most = max(found["heads"], key=lambda head: head["importance"])
        self.assertIn(f"Most important heads: {most['layer']}.{most['head']} (", out)

        zero, _ = self.heads()
        for one, other in zip(zero["heads"], found["heads"]):
            self.assertEqual(one["importances"]["ablation"], {"zero": other["importances"]["ablation"]["zero"],
                                                              "mean": None, "uniform": None, "pattern": None})
        none, out = self.heads("--no-ablation")
        self.assertIsNone(none["agreement"])
        self.assertIn("no head was removed", " ".join(out.split()))
        for one, other in zip(none["heads"], found["heads"]):
            self.assertEqual(one["importance"], other["importances"]["sensitivity"])
            self.assertEqual(set(one["importances"]["ablation"].values()), {None})
        base = ("heads", "--text", "text.txt", "--model", "model")
        self.assert_refused(2, 'heads: --ablation must be zero or all, got "some"', *base, "--ablation", "some")
        self.assert_refused(2, "heads: give --ablation all or --no-ablation, not both", *base, "--ablation", "all",
                            "--no-ablation")

    def test_any_number_of_threads_and_segments_gives_the_same(self):
        one, _ = self.heads("--threads", "1")
        two, _ = self.heads("--threads", "3")
        one.pop("seconds"), two.pop("seconds")
        self.assertEqual(one, two)

    def test_heads_that_were_removed_keep_the_numbers_of_the_others(self):
        found, _ = self.heads(num_heads=4, d_model=16, pruned={0: [0, 2], 1: [3]})
        self.assertEqual([(head["layer"], head["head"]) for head in found["heads"]],
                         [(0, 1), (0, 3), (1, 0), (1, 1), (1, 2)])

    def test_a_model_without_heads_is_refused(self):
        self.assert_refused(1, 'the model must have a head, got 0 in its 2 layers ("model")', "heads", "--text", self.text(),
                            "--model", self.model(pruned={0: [0, 1], 1: [0, 1]}), "--tokens", "20")

    def test_no_null_and_olsson(self):
        found, _ = self.heads("--no-null")
        self.assertIsNone(found["null"])
        self.assert_refused(2, "heads: --olsson needs --tokens of at least 102, got 20", "heads", "--text", self.text(),
                            "--model", self.model(), "--tokens", "20", "--olsson")

    def test_tiny_and_strange_texts(self):
        for content in ("cat", "cat cat", "猫 坐", "🐱", "cat\0sat", "e\u0301"):
            found, out = self.heads(content=content)
            self.assertIn("Segments of fewer than 16 tokens say little about roles.", out)
            self.assertEqual(found["text"]["segments"], 1)
            for head in found["heads"]:
                self.assertIsNone(head["statistics"]["variability"])
                self.assertTrue(all(score is None or score["interval"] is None for name, score in head["roles"].items()
                                    if name not in ("duplicate", "induction")))
        self.assertIsNone(found["heads"][0]["roles"]["rare_word"])

    def test_texts_that_are_refused(self):
        model = self.model()
        for content, size in (("", 0), (" \n", 2), ("\0", 1)):
            self.assert_refused(1, "read_corpus: the text must hold a token of its own, got tokens=0, "
                                f"bytes={size}", "heads", "--text", self.text(content), "--model", model, "--tokens", "9")
        code, out, err = self.run_it("heads", "--text", self.text(b"cat \xff sat"), "--model", model, "--tokens", "9")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("UTF-8", err)
        self.assert_refused(1, 'cannot read "nowhere": No such file or directory', "heads", "--text", "nowhere",
                            "--model", model)

    def test_flags_that_do_not_fit(self):
        model, text = self.model(), self.text()
        self.assert_refused(2, "heads: --text or --gold is required (multihead heads --help)", "heads", "--model", model)
        for tokens in ("2", "33"):
            self.assert_refused(2, f"heads: --tokens must be in [3, 32] for this model, got {tokens}", "heads", "--text",
                                text, "--model", model, "--tokens", tokens)
        self.assert_refused(2, 'heads: --segments must be a whole number in [1, 2147483647], got "0" (multihead heads '
                            "--help)", "heads", "--text", text, "--segments", "0")

    def test_conditions(self):
        model, text = self.model(), self.text()

        def run(condition, *more):
            return self.run_it("heads", "--text", text, "--model", model, "--tokens", "20", "--no-null", "--fail-if",
                               condition, *more)

        for condition, code in (("previous==0", 3), ("previous!=0", 0), ("previous>=1", 0), ("previous<1", 3),
                                ("previous<=0", 3), (" previous > 0 ", 0), ("unassigned<=4", 3), ("unassigned>4", 0)):
            found, out, err = run(condition)
            self.assertEqual(found, code, condition)
            self.assertIn(" head ", out)
            if code == 3 and "previous" in condition:
                self.assertEqual(err, f"multihead: heads: --fail-if holds: {condition} (0 heads)\n")
        roles = ", ".join([*ROLES, "syntactic", "unassigned"])
        for condition, problem in (
                ("prev", 'must be a role, one of == != < <= > >=, and a number, as "induction==0", got "prev"'),
                ("prevous==0", f'must name a role, got "prevous"; did you mean "previous"?; roles: {roles}'),
                ("==0", f'must name a role, got ""; roles: {roles}')):
            self.assertEqual(run(condition), (2, "", f"multihead: heads: --fail-if {problem}\n"))
        self.assertEqual(run("self==x")[1:], ("", 'multihead: heads: the number of --fail-if "self==x" must be a whole '
                                              'number in [0, 2147483647], got "x"\n'))
        code, out, err = run("rare_word==0")
        self.assertEqual((code, err), (1, "multihead: --fail-if needs heads that can be judged, got none for rare_word: the "
                                       "text has no query that it applies to; give a longer text\n"))

    def gold(self, count=60):
        lines = []
        for _ in range(count):
            for number, (form, head, relation) in enumerate([("the", 2, "det"), ("cat", 3, "nsubj"), ("sat", 0, "root"),
                                                             (".", 3, "punct")], 1):
                lines.append(f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_")
            lines.append("")
        (self.folder / "gold.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return "gold.conllu"

    def test_relations(self):
        out = self.output_of("heads", "--gold", self.gold(250), "--model", self.model(), "--tokens", "20", "--json",
                             "heads.json", "--no-null")
        found = json.loads((self.folder / "heads.json").read_text(encoding="utf-8"))
        self.assertEqual(found["text"]["tokens"], 1000)
        relations = {(each["relation"], each["direction"]): each for each in found["relations"]}
        self.assertEqual(set(relations), {(name, way) for name in ("all", "det", "nsubj", "punct")
                                          for way in ("to_head", "to_dependent")})
        det = relations["det", "to_head"]
        self.assertEqual((det["baseline"], det["baseline_offset"], det["instances"], det["passed"]), (1, 1, 125, False))
        self.assertEqual(set(det), {"relation", "direction", "layer", "head", "accuracy", "baseline", "baseline_offset",
                                    "instances", "interval", "passed"})
        for head in found["heads"]:
            self.assertEqual(list(head["roles"]), [*ROLES, "syntactic"])
        self.assertRegex(out, r"(?m)^ det +to_head +\d\.\d +[0-9.]+ +100.0  \(\+1\) ")
        self.assertEqual(self.run_it("heads", "--gold", "gold.conllu", "--model", self.model(), "--tokens", "20", "--no-null",
                                     "--fail-if", "syntactic==0")[0], 3)
        self.assert_refused(2, "heads: --fail-if on syntactic needs --gold", "heads", "--text", self.text(), "--model",
                            self.model(), "--fail-if", "syntactic==0")

    def test_gold_that_is_wrong_is_refused_with_its_line(self):
        (self.folder / "bad.conllu").write_text("# x\n1\tcat\n")
        self.assert_refused(1, 'read_conllu: a word must have 10 columns, separated by tabs, got columns=2, line=2 '
                            '("bad.conllu")', "heads", "--gold", "bad.conllu", "--model", self.model())
        self.assert_refused(2, "heads: --text and --gold must not both be standard input", "heads", "--text", "-", "--gold",
                            "-", "--model", self.model())
        self.assert_refused(2, 'heads: --json must not name the file that is read, got "gold.conllu"', "heads", "--gold",
                            self.gold(), "--json", "gold.conllu", "--model", self.model())

    def test_standard_streams(self):
        out = self.output_of("heads", "--text", "-", "--model", self.model(), "--tokens", "20", "--json", "-",
                             stdin=(WORDS * 9).encode())
        self.assertEqual(len(json.loads(out)["heads"]), 4)

    def test_narrow_terminals_fit(self):
        _, out = self.heads()
        self.assertTrue(all(cli_support.columns(line) <= 110 for line in out.splitlines()))


class InspectRoles(CommandTest):
    def test_the_roles_of_one_text(self):
        model = self.small_model(words=WORDS)
        out = self.output_of("inspect", WORDS, "--model", model, "--roles", "--no-html", "--json", "roles.json")
        found = json.loads((self.folder / "roles.json").read_text(encoding="utf-8"))
        self.assertRegex(out, r"(?m)^ head +role +lift +~tokens")
        self.assertNotIn("say little", out)
        self.assertNotIn("95 %", out)
        for head in found["heads"]:
            self.assertEqual(list(head["roles"]), ROLES)
            self.assertEqual(head["role"], head["labels"][0] if head["labels"] else "unassigned")
            self.assertIn("links", head)
            self.assertIsNone(head["roles"]["duplicate"])
            self.assertTrue(all(score is None or score["interval"] is None for score in head["roles"].values()))
        plain = self.output_of("inspect", WORDS, "--model", model, "--no-html")
        self.assertNotIn("role", plain)

    def test_copies_in_the_text_count(self):
        self.output_of("inspect", "the cat sat the cat sat", "--model", self.small_model(words=WORDS), "--roles", "--no-html",
                       "--json", "roles.json")
        found = json.loads((self.folder / "roles.json").read_text(encoding="utf-8"))
        self.assertEqual(found["heads"][0]["roles"]["duplicate"]["eligible"], 3)
        self.assertEqual(found["heads"][0]["roles"]["induction"]["eligible"], 3)

    def test_a_short_text_is_told(self):
        out = self.output_of("inspect", "the cat", "--model", self.small_model(words=WORDS), "--roles", "--no-html")
        self.assertIn("Segments of fewer than 16 tokens say little about roles.", out)


class HeadsOfMiniLM(CommandTest):
    def test_what_is_known_of_it(self):
        data = pathlib.Path(os.environ.get("MULTIHEAD_DATA") or pathlib.Path(__file__).parents[2] / ".." / "shared" / "data")
        gold = data / "ud_english_pud" / "en_pud-ud-test.conllu"
        for path in (MODEL, gold):
            if not path.exists():
                print(f"there is no {path}")
                sys.exit(77)
        out = self.output_of("heads", "--gold", str(gold), "--json", "heads.json", "--no-null", "--segments", "16")
        found = json.loads((self.folder / "heads.json").read_text(encoding="utf-8"))
        roles = {(head["layer"], head["head"]): head for head in found["heads"]}
        self.assertEqual(len(roles), 72)
        self.assertGreater(roles[0, 2]["roles"]["previous"]["lift"], 0.95)
        self.assertEqual(roles[0, 2]["role"], "previous")
        self.assertEqual(roles[1, 8]["role"], "next")
        passed = {(each["relation"], each["direction"]): each for each in found["relations"] if each["passed"]}
        for relation in ("det", "case", "obj"):
            self.assertGreater(passed[relation, "to_head"]["accuracy"], passed[relation, "to_head"]["baseline"] + 0.15)
        self.assertNotIn(("conj", "to_head"), passed)
        unassigned = [head for head in found["heads"] if head["role"] == "unassigned"]
        self.assertRegex(out.replace("\n", " "), rf"unassigned {len(unassigned)}\.")
        self.assertTrue(any(head["role"] == "syntactic" for head in found["heads"]))
        self.assertEqual(found["similarity"]["near_duplicates"], [])
        near = roles[2, 5]["nearest"][0]
        self.assertEqual((near["layer"], near["head"]), (2, 7))
        self.assertAlmostEqual(near["writes_alike"], 0.64, delta=0.05)
        for layer in found["layers"]:
            self.assertTrue(7 < layer["effective_heads"] < 11.9, layer)


if __name__ == "__main__":
    cli_support.main()
