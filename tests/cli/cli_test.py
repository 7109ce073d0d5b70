#!/usr/bin/env python3
"""The command, as a person types it.

    cli_test.py MULTIHEAD [GROUP...]

Groups Inspect and Wide need the model of scripts/get-model; exit code 77 (skipped, saying why) where it is absent.
"""

import json
import math
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import cli_support
from cli_support import MODEL, CommandTest, columns

SENTENCE = "The animal didn't cross the street because it was too tired."


class Command(CommandTest):
    def test_help_lists_the_commands(self):
        out = self.output_of("--help")
        for name in ("inspect", "heads", "explain", "onnx"):
            self.assertRegex(out, rf"(?m)^  {name} +\w")

    def test_every_command_has_help_with_an_example(self):
        for name in re.findall(r"(?m)^  (\w+) ", self.output_of("--help")):
            out = self.output_of(name, "--help")
            self.assertIn("Example", out)
            self.assertIn(f"multihead {name}", out)

    def test_version(self):
        pattern = r"^multihead \d+\.\d+\.\d+\ninstruction set (\w+) \(of (\w+(?:, \w+)*)\)\nthreads [1-9]\d*\n$"
        found = re.match(pattern, self.output_of("--version"))
        self.assertTrue(found)
        names = found[2].split(", ")
        self.assertEqual(found[1], names[0])
        for name in names:
            out = self.output_of("--version", MULTIHEAD_INSTRUCTION_SET=name.lower())
            self.assertIn(f"instruction set {name} (of {found[2]})", out)
        text = ("instruction_set: MULTIHEAD_INSTRUCTION_SET must be an instruction set that can run here, got "
                f"MULTIHEAD_INSTRUCTION_SET=fast; known: {found[2]}")
        self.assert_refused(1, text, "--version", MULTIHEAD_INSTRUCTION_SET="fast")
        self.assert_refused(1, text, "explain", "a cat", MULTIHEAD_INSTRUCTION_SET="fast")

    def test_an_unknown_command_suggests_the_nearest(self):
        self.assert_refused(2, 'unknown command "inspct"; did you mean "inspect"? (multihead --help lists them)', "inspct")
        self.assert_refused(2, 'unknown command "explian"; did you mean "explain"? (multihead --help lists them)', "explian")
        self.assert_refused(2, 'unknown command "xyzzy" (multihead --help lists them)', "xyzzy")
        self.assert_refused(2, "a command is needed (multihead --help lists them)")

    def test_flags_that_do_not_fit(self):
        self.assert_refused(2, "inspect: unknown option \"--bogus\" (multihead inspect --help)",
                            "inspect", "hi", "--bogus")
        self.assert_refused(2, "onnx: DIR is required (multihead onnx --help)", "onnx")
        self.assert_refused(2, "inspect: give --html or --no-html, not both", "inspect", "hi", "--html", "x",
                            "--no-html", "--model", self.small_model())


class Onnx(CommandTest):
    CASES = pathlib.Path(__file__).parent.parent / "conformance" / "onnx_attention"

    def test_a_line_a_case_and_a_total(self):
        lines = self.output_of("onnx", str(self.CASES), str(self.CASES / "test_attention_3d") + "/").splitlines()
        self.assertEqual(len(lines), 86)
        for line in lines[:-1]:
            self.assertRegex(line, r"^pass  test_\w+  [0-9.e-]+ of the tolerance$")
        self.assertEqual(lines[-1], "85 of 85 cases pass, |got - expected| <= 1e-07 + 0.001 * |expected|")

    def test_a_failing_case_makes_exit_code_1(self):
        folder = self.folder / "case"
        shutil.copytree(self.CASES / "test_rotary_embedding", folder)
        shutil.copy(folder / "test_data_set_0" / "input_0.pb", folder / "test_data_set_0" / "output_0.pb")
        code, out, err = self.run_it("onnx", str(folder))
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(out, r"^FAIL  case  run_onnx_case: outputs must agree within the tolerance, got "
                              r'output="output", differing=\d+, elements=192, worst_index=\d+, value=\S+, expected=\S+\n'
                              r"0 of 1 cases pass")

    def test_a_damaged_case_fails_and_the_others_run(self):
        for name in ("test_attention_3d", "test_attention_4d"):
            shutil.copytree(self.CASES / name, self.folder / name)
        (self.folder / "test_attention_3d" / "model.onnx").write_bytes(b"\x3a\x7f")
        code, out, err = self.run_it("onnx", ".")
        self.assertEqual((code, err), (1, ""))
        self.assertIn("FAIL  test_attention_3d  load_onnx_graph: a field must end inside its message, got field_bytes=127, "
                      'bytes_left=0, offset=2 ("./test_attention_3d/model.onnx")\n', out)
        self.assertIn("pass  test_attention_4d ", out)

    def test_a_folder_without_cases_is_refused(self):
        self.assert_refused(1, 'find_onnx_cases: a folder must hold a model.onnx or subfolders that do ("nowhere")',
                            "onnx", "nowhere")


class Explain(CommandTest):
    def numbers(self, *arguments):
        self.output_of("explain", *arguments, "--json", "steps.json")
        return json.loads((self.folder / "steps.json").read_text(encoding="utf-8"))

    def test_four_tokens_split_by_spaces(self):
        steps = self.numbers("老白 拿起 他的 锅铲")
        self.assertEqual(steps["tokens"], ["老白", "拿起", "他的", "锅铲"])
        self.assertEqual([steps[name] for name in ("d_model", "num_heads", "head_dim")], [512, 8, 64])
        self.assertEqual((len(steps["x"]), len(steps["x"][0])), (4, 512))
        self.assertEqual((len(steps["q"]), len(steps["q"][0]), len(steps["q"][0][0])), (8, 4, 64))
        self.assertEqual((len(steps["probs"]), len(steps["probs"][0]), len(steps["probs"][0][0])), (8, 4, 4))
        self.assertEqual((len(steps["y"]), len(steps["y"][0])), (4, 512))

    def test_the_numbers_fit_the_formulas(self):
        steps = self.numbers("the cat sat on the mat", "--d-model", "48", "--num-heads", "3", "--seed", "7")
        n, width = 6, 16
        for h in range(3):
            for i in range(n):
                scores = [sum(a * b for a, b in zip(steps["q"][h][i], steps["k"][h][j])) / math.sqrt(width) for j in range(n)]
                weights = [math.exp(s) for s in scores]
                for j in range(n):
                    self.assertAlmostEqual(steps["scores"][h][i][j], scores[j], delta=1e-5)
                    self.assertAlmostEqual(steps["probs"][h][i][j], weights[j] / sum(weights), delta=1e-6)
                for d in range(width):
                    read = sum(steps["probs"][h][i][j] * steps["v"][h][j][d] for j in range(n))
                    self.assertAlmostEqual(steps["heads"][h][i][d], read, delta=1e-5)
        self.assertEqual([check["step"] for check in steps["checks"]], [1, 2, 3, 4, 4, 5, 6, 6, 0])
        self.assertTrue(all(check["holds"] for check in steps["checks"]))

    def test_equal_words_differ_by_their_place_and_the_seed_counts(self):
        first, again, other = (self.numbers("a a", "--seed", seed) for seed in ("1", "1", "2"))
        self.assertNotEqual(first["x"][0], first["x"][1])
        self.assertEqual(first["y"], again["y"])
        self.assertNotEqual(first["y"], other["y"])

    def test_one_head_beside_many(self):
        out = self.output_of("explain", "a b c")
        for line in ("parameters, without biases               1,048,576       1,048,576",
                     "multiply-adds on this text               3,154,944       3,154,944",
                     "maps, so relations kept apart                    8               1"):
            self.assertIn(line, out)

    def test_seven_heads_do_not_fit_512(self):
        self.assert_refused(
            2, "explain: d_model must be a multiple of num_heads, got d_model=512, num_heads=7; 512 / 7 = 73.14 is not a "
               "whole number, so the heads have no common width (7 heads of 73 would make 511 features, not 512). Take a "
               "divisor of 512: 1, 2, 4, 8, 16, 32, 64, 128, 256, 512", "explain", "a b", "--num-heads", "7")

    def test_bad_input(self):
        empty = "explain: the text must not be empty; give it as TEXT or with --file"
        self.assert_refused(2, empty, "explain")
        self.assert_refused(2, empty, "explain", " \t")
        self.assert_refused(1, "the text must be UTF-8, got byte 0xff at position 1", "explain", b"a\xff")
        self.assert_refused(2, "explain: --head must be in [0, 8), got 8", "explain", "a", "--head", "8")
        self.assert_refused(1, 'cannot write "no/x.json": No such file or directory', "explain", "a", "--json", "no/x.json")

    def test_fits_100_columns_and_has_no_colours_in_a_pipe(self):
        for text in ("老白 拿起 他的 锅铲", " ".join(f"word{n}" for n in range(30))):
            out = self.output_of("explain", text)
            self.assertNotIn("\033", out)
            for line in out.splitlines():
                self.assertLessEqual(columns(line), 100, line)

    def test_escape_sequences_of_a_text_do_not_reach_the_terminal(self):
        self.assertNotIn("\033", self.output_of("explain", "a\033[31m b"))


class SmallModels(CommandTest):
    def test_statistics_that_do_not_apply_are_null(self):
        model = self.small_model(max_positions=8)

        def numbers(text):
            self.output_of("inspect", text, "--model", model, "--no-html", "--json", "heads.json")
            return json.loads((self.folder / "heads.json").read_text())["heads"]

        for text, distant, offsets in (("the", False, 3), ("the cat", False, 4), ("the cat sat", True, 5)):
            for head in numbers(text):
                self.assertEqual(head["distant_confidence"] is not None, distant, text)
                self.assertEqual([value is not None for value in head["offsets"]],
                                 [abs(offset) < offsets for offset in range(-4, 5)])
            out = self.output_of("inspect", text, "--model", model, "--no-html")
            self.assertEqual("the one that looks most surely at distant tokens" in out, distant, text)
            self.assertRegex(out, r"(?m)^Layer \d, head \d")

    def test_models_at_the_edge_give_the_right_reason(self):
        for name, reason, changes in (
                ("no layers", "the model must have a head, got 0 in its 0 layers", {"num_layers": 0}),
                ("room 2", "the model must read a token of the text, got room for 2 tokens, 2 added by the tokenizer",
                 {"model_max_length": 2}),
                ("room 1", "the model must read a token of the text, got room for 1 tokens, 2 added by the tokenizer",
                 {"model_max_length": 1}),
                ("positions 2", "the model must read a token of the text, got room for 2 tokens, 2 added by the "
                                "tokenizer", {"max_positions": 2})):
            model = self.small_model(name, **changes)
            for more in ((), ("--layer", "0"), ("--layer", "0", "--head", "0")):
                self.assert_refused(1, f'{reason} ("{model}")', "inspect", "the cat", "--model", model, *more)
                self.assert_refused(1, f'{reason} ("{model}")', "explain", "the cat", "--model", model, *more)
        model = self.small_model("room 3", model_max_length=3)
        self.assertIn("The text has 4 tokens; the model reads 3, so the last 1 are left out.",
                      self.output_of("inspect", "the cat", "--model", model, "--no-html"))
        self.assert_refused(2, "inspect: the text must hold a token of its own, got only what the tokenizer drops",
                            "inspect", "\u200b", "--model", model)
        self.assert_refused(2, "inspect: --head must be in [0, 2) in layer 1, got 2",
                            "inspect", "the", "--model", model, "--layer", "1", "--head", "2")

    def test_heads_have_the_numbers_of_the_design(self):
        model = self.small_model(num_heads=4, pruned={0: [0, 2]})
        self.output_of("inspect", "the cat", "--model", model, "--no-html", "--json", "heads.json")
        heads = json.loads((self.folder / "heads.json").read_text())["heads"]
        self.assertEqual([(head["layer"], head["head"]) for head in heads], [(0, 1), (0, 3), *((1, h) for h in range(4))])
        for command in ("inspect", "explain"):
            flags = ("the cat", "--model", model, "--layer", "0") + (("--no-html",) if command == "inspect" else ())
            self.assertRegex(self.output_of(command, *flags, "--head", "3"), r"(?m)^Layer 0, head 3|q of head 3:")
            self.assertEqual(self.run_it(command, *flags, "--head", "2")[0], 2)
            self.assert_refused(2, f"{command}: --head must be in [0, 4){' in layer 0' * (command == 'inspect')}, got 4",
                                command, *flags, "--head", "4")
        self.assert_refused(2, "explain: --head must name a head that the layer has, got 2: it was removed",
                            "explain", "the cat", "--model", model, "--head", "2")
        steps = self.output_of("explain", "the cat", "--model", model)
        for line in ("q of head 1:", "concat(head_1 .. head_3)", "| head 1: 0..1 | head 3: 2..3 |"):
            self.assertIn(line, steps)
        steps = json.loads(self.output_of("explain", "the cat", "--model", model, "--json", "-"))
        self.assertEqual((steps["original_heads"], len(steps["probs"])), ([1, 3], 2))

    def test_a_layer_that_lost_all_heads(self):
        model = self.small_model(pruned={0: [0, 1]})
        for command in ("inspect", "explain"):
            self.assert_refused(2, f"{command}: --layer must name a layer with heads, got 0: it has none left",
                                command, "the cat", "--model", model, "--layer", "0")
        self.output_of("inspect", "the cat", "--model", model, "--no-html", "--probs", "maps")
        self.assertEqual(list(cli_support.read_safetensors(self.folder / "maps")), ["layers.1.probs"])

    def test_a_text_of_special_tokens_is_a_text(self):
        model = self.small_model()
        out = self.output_of("inspect", "[SEP]", "--model", model, "--no-html", "--json", "-")
        self.assertEqual([token["special"] for token in json.loads(out)["tokens"]], [True, False, True])


class Long(CommandTest):
    def test_explain_keeps_no_whole_map(self):
        """4,096 tokens and 8 heads: one map of all heads would be 537 MB."""
        (self.folder / "text").write_text(" ".join(f"w{n}" for n in range(4096)))
        command = [cli_support.MULTIHEAD, "explain", "--file", "text", "--d-model", "64"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        done = subprocess.run(command, cwd=self.folder, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertRegex(done.stdout.decode(), r"1024 of 32768 rows of all 8 maps sum to 1")
        self.assertLess(max(0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss), max(before, 250_000), "KiB")
        self.assert_refused(2, "explain: --json must hold at most 16777216 numbers, got 270008320 of 4096 tokens and 8 "
                               "heads; take a shorter text",
                            "explain", "--file", "text", "--d-model", "64", "--json", "x.json")
        self.assertEqual(sorted(self.contents()), ["text"])

    def test_too_many_tokens_are_refused(self):
        (self.folder / "text").write_text("a " * 4097)
        self.assert_refused(2, "explain: the text must have at most 4096 tokens, got 4097", "explain", "--file", "text")


class Inspect(CommandTest):
    def inspect(self, *arguments, **more):
        return self.output_of("inspect", "--no-html", *arguments, **more)

    def test_a_line_for_each_head_and_a_map(self):
        out = self.inspect(SENTENCE)
        self.assertTrue(out.startswith("minilm: 6 layers, 72 heads, 16 tokens\n"), out[:80])
        heads = re.findall(r"(?m)^[ >](\d+)\.(\d+) +[\d.]+ +[\d.]+ +\d+%", out)
        self.assertEqual([tuple(map(int, head)) for head in heads], [(layer, h) for layer in range(6) for h in range(12)])
        self.assertRegex(out, r"Layer \d, head \d+, the one that looks most surely at distant tokens")
        self.assertNotIn("\033", out)

    def test_the_numbers_as_json(self):
        self.inspect(SENTENCE, "--json", "heads.json", "--probs", "maps", "--layer", "2", "--head", "3")
        result = json.loads((self.folder / "heads.json").read_text(encoding="utf-8"))
        maps = cli_support.read_safetensors(self.folder / "maps")
        self.assertEqual(len(result["heads"]), 72)
        self.assertEqual(result["shown"], {"layer": 2, "head": 3})
        self.assertEqual(result["words"][:4], ["The", "animal", "didn", "'"])
        self.assertEqual([t["special"] for t in result["tokens"]], [True] + [False] * 14 + [True])
        for head in result["heads"]:
            values = maps[f"layers.{head['layer']}.probs"][1][head["head"] * 256:][:256]
            probs = [values[i * 16:(i + 1) * 16] for i in range(16)]
            entropy = special = 0
            for row in probs:
                self.assertAlmostEqual(sum(row), 1, delta=1e-5)
                entropy -= sum(p * math.log(p) for p in row if p > 0) / 16
                special += (row[0] + row[15]) / 16
            self.assertAlmostEqual(head["entropy"], entropy, delta=1e-5)
            self.assertAlmostEqual(head["special_share"], special, delta=1e-5)
            link = head["links"][0]
            self.assertEqual(link["prob"], probs[link["query"]][link["key"]])
            self.assertEqual(link["prob"], max(p for row in probs[1:15] for p in row[1:15]))

    def test_the_page_is_written(self):
        out = self.output_of("inspect", SENTENCE)
        self.assertTrue(out.endswith("\nPage: heads.html (open it in a browser)\n"))
        page = (self.folder / "heads.html").read_text(encoding="utf-8")
        self.assertEqual(page.count('<script type="text/plain" id="map-'), 72)
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), r"https?://")

    def test_the_same_from_a_file_and_for_any_threads(self):
        (self.folder / "text").write_text(SENTENCE, encoding="utf-8")
        by_argument = self.inspect(SENTENCE, "--threads", "1")
        self.assertEqual(by_argument, self.inspect("--file", "text", "--threads", "3"))
        self.assertEqual(by_argument, self.inspect("--file", "-", stdin=SENTENCE.encode()))

    def test_a_long_text_is_cut_and_that_is_said(self):
        out = self.inspect("word " * 600)
        self.assertIn("\nThe text has 602 tokens; the model reads 512, so the last 90 are left out.\n", out)
        self.output_of("inspect", "word " * 600)
        self.assertIn("so the last 90 are left out.", (self.folder / "heads.html").read_text(encoding="utf-8"))

    def test_bad_input(self):
        empty = "inspect: the text must not be empty; give it as TEXT or with --file"
        self.assert_refused(2, empty, "inspect")
        self.assert_refused(2, empty, "inspect", "")
        self.assert_refused(2, "inspect: the text must hold a token of its own, got only what the tokenizer drops",
                            "inspect", "\u200b")
        self.assert_refused(2, "inspect: give the text or --file, not both", "inspect", "a", "--file", "b")
        self.assert_refused(1, 'cannot read "b": No such file or directory', "inspect", "--file", "b")
        self.assert_refused(1, "Tokenizer::encode: text must be UTF-8, got byte=0xFF, position=1", "inspect", b"a\xff")
        self.assert_refused(2, "inspect: --layer must be in [0, 6), got 6", "inspect", "a", "--layer", "6")
        self.assert_refused(2, "inspect: --head must be in [0, 12), got 12", "inspect", "a", "--head", "12")
        self.assertEqual(list(self.folder.iterdir()), [], "nothing was written")

    def test_output_that_cannot_be_written_is_found_first(self):
        self.assert_refused(1, 'cannot write "no/x.html": No such file or directory', "inspect", "a", "-o", "no/x.html")
        self.assert_refused(1, 'cannot write "no/x.json": No such file or directory', "inspect", "a", "--json", "no/x.json")

    def test_no_model(self):
        self.assert_refused(1, 'no model at "none"; give a folder with config.json, model.safetensors and tokenizer.json',
                            "inspect", "a", "--model", "none")
        self.assert_refused(1, f'no model at "{self.folder}/multihead/models/minilm"; scripts/get-model minilm fetches '
                               "it, or give --model DIR", "inspect", "a", XDG_CACHE_HOME=str(self.folder))

    def test_a_damaged_model(self):
        model = self.folder / "model"
        model.mkdir()
        for file in MODEL.glob("*.json"):
            shutil.copy(file, model)
        (model / "model.safetensors").write_bytes((MODEL / "model.safetensors").read_bytes()[:1000])
        code, out, err = self.run_it("inspect", "a", "--model", "model")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r'^multihead: load_safetensors: header must end inside the file, got header_bytes=\d+, '
                              r'file_bytes=1000 \("model/model.safetensors"\)\n$')

    def test_a_layer_of_a_model_is_explained(self):
        out = self.output_of("explain", SENTENCE, "--layer", "3", "--head", "5")
        self.assertIn("16 tokens, d_model 384, 12 heads of width 32", out)
        self.assertIn("layer 3 of minilm", out)
        self.assert_refused(2, "explain: --layer must be in [0, 6), got 6", "explain", "a", "--layer", "6")
        self.assert_refused(2, "explain: --head must be in [0, 12), got 12", "explain", "a", "--layer", "0", "--head", "12")
        self.assert_refused(2, "explain: --d-model and --num-heads are the model's own; leave them out",
                            "explain", "a", "--layer", "0", "--num-heads", "4")


class Wide(CommandTest):
    def test_columns_line_up_in_any_script(self):
        out = self.output_of("inspect", "--no-html", "白 的 e\u0301te\u0301 日 cat 人", "--layer", "0", "--head", "0")
        rows = [line for line in out.splitlines() if re.match(r" *(\S+)  [ ░▒▓█]+$", line)]
        self.assertGreaterEqual(len(rows), 6)
        starts = set()
        for row in rows:
            label = re.match(r" *\S+", row).group()
            starts.add(columns(label))
        self.assertEqual(len(starts), 1, "the labels end in one column")


if __name__ == "__main__":
    if not MODEL.is_dir() and {"Inspect", "Wide"} & set(sys.argv[2:]):
        print(f"skipped: no model at {MODEL} (scripts/get-model minilm fetches it)")
        sys.exit(77)
    cli_support.main()
