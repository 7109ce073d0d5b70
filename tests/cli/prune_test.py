"""multihead prune: the smaller model, the report, and what is refused before anything is written."""

import json
import random
import struct

from cli_support import CommandTest, main

WORDS = "the cat sat on mat dog ran to his her big red"


def tensors_of(path):
    """name -> shape"""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: each["shape"] for name, each in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


class Prune(CommandTest):
    def setUp(self):
        super().setUp()
        self.small_model(words=WORDS, num_layers=3, num_heads=4, d_model=16)
        chance = random.Random(3)
        words = WORDS.split()
        lines = [" ".join(chance.choices(words, k=chance.randrange(3, 9))) for _ in range(80)]
        (self.folder / "text.txt").write_text("\n\n".join(lines) + "\n")

    def prune(self, *flags):
        return self.output_of("prune", "--model", "model", "--text", "text.txt", "--no-speed", *flags)

    def report(self, *flags):
        self.prune("--json", "prune.json", *flags)
        return json.loads((self.folder / "prune.json").read_text())

    def test_a_smaller_model_that_opens(self):
        report = self.report("--remove", "0.5", "--output", "smaller", "--random-seeds", "5")
        self.assertEqual([point["removed"] for point in report["curve"]], [1, 2, 4, 5, 6])
        gone = [head for point in report["curve"] for head in point["heads"]]
        self.assertEqual(len(gone), 6)
        for layer, kept in enumerate(report["kept"]):
            lost = sorted(head["head"] for head in gone if head["layer"] == layer)
            self.assertEqual(sorted(kept + lost), [0, 1, 2, 3])
        config = json.loads((self.folder / "smaller" / "config.json").read_text())
        self.assertEqual(config["pruned_heads"],
                         {str(layer): [h for h in range(4) if h not in kept] for layer, kept in enumerate(report["kept"])
                          if len(kept) < 4})
        shapes = tensors_of(self.folder / "smaller" / "model.safetensors")
        for layer, kept in enumerate(report["kept"]):
            self.assertEqual(shapes[f"encoder.layer.{layer}.attention.self.query.weight"], [4 * len(kept), 16])
        self.assertLess(report["after"]["parameters"], report["before"]["parameters"])
        self.assertLess(report["after"]["file_bytes"], report["before"]["file_bytes"])
        # 12 * 16 * 4 weights an attention head, of q, k, v and o, and its products with keys
        self.assertEqual(report["before"]["parameters"] - report["after"]["parameters"], 6 * (4 * 16 * 4 + 3 * 4))
        for point in report["curve"]:
            self.assertEqual(point["random"]["seeds"], 5)
            self.assertLessEqual(point["random"]["loss"]["min"], point["random"]["loss"]["median"])
        again = self.output_of("inspect", "--model", "smaller", "--no-html", "--json", "-", "the cat sat")
        self.assertEqual(len(json.loads(again)["heads"]), 6)

    def test_zeroed_keeps_the_shapes(self):
        report = self.report("--remove", "0.25", "--output", "zeroed", "--storage", "zeroed", "--random-seeds", "0")
        self.assertEqual(tensors_of(self.folder / "zeroed" / "model.safetensors"),
                         tensors_of(self.folder / "model" / "model.safetensors"))
        self.assertIsNone(report["curve"][0]["random"])
        # A change that cannot be seen in the vectors: they are the ones of the report's model.
        sliced = self.report("--remove", "0.25", "--output", "sliced", "--random-seeds", "0")
        self.assertEqual(sliced["curve"], report["curve"])

    def test_the_same_text_gives_the_same_model(self):
        for name in ("a", "b"):
            self.prune("--remove", "0.3", "--output", name, "--threads", "1" if name == "a" else "2")
        self.assertEqual((self.folder / "a" / "model.safetensors").read_bytes(),
                         (self.folder / "b" / "model.safetensors").read_bytes())

    def test_making_up_for_heads_is_never_worse_than_not(self):
        plain = self.report("--remove", "0.25", "--step", "1", "--method", "none", "--random-seeds", "0")
        for method in ("mean", "scale", "fold"):
            report = self.report("--remove", "0.25", "--step", "1", "--method", method, "--random-seeds", "0")
            point = report["curve"][0]
            if point["heads"] == plain["curve"][0]["heads"]:
                self.assertLessEqual(point["loss"], plain["curve"][0]["loss"])

    def test_the_table_says_what_the_report_says(self):
        out = self.prune("--remove", "0.2", "--json", "prune.json")
        report = json.loads((self.folder / "prune.json").read_text())
        last = report["curve"][-1]
        self.assertRegex(out, rf"(?m)^ +{last['removed']} +\d+% +{last['loss']:.4f} ")
        self.assertIn("Heads that are left, by layer: 0:", out)
        self.assertIn("Numbers: prune.json", out)
        self.assertEqual(json.loads(self.prune("--remove", "0.2", "--json", "-"))["curve"], report["curve"])

    def test_refuses_what_does_not_fit(self):
        before = self.contents()
        base = ("prune", "--model", "model", "--text", "text.txt", "--output", "new")
        help_ = " (multihead prune --help)"
        for flags, code, text in [
                (("--remove", "0"), 2, "prune: --remove must be above 0 and at most 1, got 0"),
                (("--remove", "1.5"), 2, "prune: --remove must be above 0 and at most 1, got 1.5"),
                (("--remove", "0.9"), 2, "prune: --remove must take 1 to 9 of the 12 heads (each layer keeps one, unless "
                                         "--allow-empty-layer), got 11 for 0.9"),
                (("--remove", "0.01"), 2, "prune: --remove must take 1 to 9 of the 12 heads (each layer keeps one, unless "
                                          "--allow-empty-layer), got 0 for 0.01"),
                (("--method", "best"), 2, 'prune: --method must be none, mean, scale or fold, got "best"'),
                (("--storage", "small"), 2, 'prune: --storage must be sliced or zeroed, got "small"'),
                (("--sentences", "1"), 2, 'prune: --sentences must be a whole number in [2, 2147483647], got "1"' + help_)]:
            self.assert_refused(code, text, *base, *flags)
        (self.folder / "few.txt").write_text("the cat\n" * 15 + "\n \t\n")
        self.assert_refused(1, "the text must have at least 16 lines with a token, got 15; one sentence a line",
                            "prune", "--model", "model", "--text", "few.txt")
        self.assert_refused(2, "prune: --text is required" + help_, "prune")
        (self.folder / "full").mkdir()
        (self.folder / "full" / "file").write_text("mine")
        code, out, err = self.run_it("prune", "--model", "model", "--text", "text.txt", "--output", "full")
        self.assertEqual((code, out), (1, ""))
        self.assertIn('cannot write "full"', err)
        self.assertEqual((self.folder / "full" / "file").read_text(), "mine")
        left = self.contents()
        for name in ("few.txt", "full", "full/file"):
            del left[name]
        self.assertEqual(left, before)

    def test_an_empty_layer_only_if_allowed(self):
        report = self.report("--remove", "0.99", "--allow-empty-layer", "--output", "none", "--random-seeds", "1")
        self.assertEqual(report["kept"], [[], [], []])
        self.output_of("prune", "--model", "model", "--text", "text.txt", "--no-speed", "--remove", "0.75")


if __name__ == "__main__":
    main()
