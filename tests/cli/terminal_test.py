#!/usr/bin/env python3
"""What reaches a terminal: lines that fit it, and no character that moves its cursor or turns its text."""

import fcntl
import json
import os
import re
import struct
import subprocess
import termios

import cli_support
from cli_support import CONTROLS, CONTROLS_IN_NAMES, CommandTest, columns

STYLE = re.compile(r"\x1b\[[0-9;]*m")
LONG = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"
TEXTS = ["the cat sat", f"{LONG} the {LONG}", "老白 拿起 他的 锅铲", "😀 👩‍👩‍👧 🇩🇪 ☕ cat " * 4,
         " ".join(f"word{n}" for n in range(60)), "the", "日本語日本語日本語日本語日本語日本語 e\u0301te\u0301"]


def on_terminal(width, *arguments, cwd):
    """Exit code, standard output and error on a terminal of that width, both as it."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([cli_support.MULTIHEAD, *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                               stderr=theirs, cwd=cwd, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    out = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        out += more
    os.close(ours)
    return process.wait(), out.decode().replace("\r\n", "\n")


class Terminal(CommandTest):
    def assert_fits(self, text, width):
        for line in STYLE.sub("", text).splitlines():
            self.assertLessEqual(columns(line), width, line)

    def test_lines_fit_any_width(self):
        model = self.small_model(words=f"the cat sat 老 白 拿 😀 {LONG.lower()} ☕", max_positions=48)
        for width in (20, 31, 40, 59, 60, 80, 100, 200):
            for text in TEXTS:
                for command in (("inspect", text, "--model", model), ("explain", text, "--model", model),
                                ("explain", text, "--d-model", "64", "--num-heads", "4"),
                                ("explain", text, "--d-model", "6", "--num-heads", "1")):
                    with self.subTest(width=width, command=command):
                        code, out = on_terminal(width, *command, cwd=self.folder)
                        self.assertEqual(code, 0, out)
                        # A path is one word, to be copied.
                        self.assert_fits(out.replace("Page: heads.html (open it in a browser)\n", ""), width)

    def test_colours_on_a_terminal_only(self):
        self.assertIn("\x1b[", on_terminal(80, "explain", "a", "--d-model", "8", cwd=self.folder)[1])

    def test_narrow_tables_keep_the_numbers(self):
        model = self.small_model()
        code, out = on_terminal(40, "inspect", "the cat sat", "--model", model, "--no-html", cwd=self.folder)
        rows = re.findall(r"(?m)^[ >](\d\.\d) +[\d.]+ +[\d.]+ +\d+%$", STYLE.sub("", out))
        self.assertEqual(rows, ["0.0", "0.1", "1.0", "1.1"])

    def test_progress_is_shown_on_a_terminal_and_taken_back(self):
        text = self.folder / "text"
        text.write_text(" ".join(f"w{n}" for n in range(1500)))
        long = ("explain", "--file", "text", "--d-model", "512", "--num-heads", "64")
        code, out = on_terminal(80, *long, cwd=self.folder)
        self.assertEqual(code, 0)
        self.assertIn("\r\x1b[Krunning the layer ..", out)
        self.assertRegex(out, r"\r\x1b\[K\x1b\[1mMulti-head attention in six steps")
        self.assertEqual(self.run_bytes(*long).stderr, b"", "not in a pipe")
        self.assertNotIn("\r", on_terminal(80, "explain", "a", cwd=self.folder)[1], "nor for what is short")

    def test_maps_do_not_go_to_a_terminal(self):
        code, out = on_terminal(80, "inspect", "the", "--model", self.small_model(), "--no-html", "--probs", "-",
                                cwd=self.folder)
        self.assertEqual((code, out), (2, "multihead: inspect: --probs writes no text: name a file, or redirect standard "
                                          "output\n"))


class Controls(CommandTest):
    """The whole class of characters, in every text that the command shows."""

    def assert_clean(self, text, shown=()):
        for c in CONTROLS:
            self.assertFalse(c in text and c != "\n", f"U+{ord(c):04X} in {text[:200]!r}")
        for c in shown:
            self.assertIn(f"U+{ord(c):04X}", text)

    def names(self):
        """Names of files that hold them all, but for what a name cannot hold."""
        some = [c for c in CONTROLS_IN_NAMES if c != "/"]
        return ["n" + "".join(some[at:at + 40]) for at in range(0, len(some), 40)]

    def test_tokens_of_explain(self):
        tokens = [f"a{c}b" for c in CONTROLS if c not in "\t\n\v\f\r "]
        for at in range(0, len(tokens), 4):
            (self.folder / "text").write_text(" ".join(tokens[at:at + 4]), encoding="utf-8", newline="")
            flags = ("explain", "--file", "text", "--d-model", "8", "--num-heads", "2")
            self.assert_clean(self.output_of(*flags), [token[1] for token in tokens[at:at + 4]])
            out = self.output_of(*flags, "--json", "-")
            self.assert_clean(out)
            self.assertEqual(json.loads(out)["tokens"], tokens[at:at + 4])

    def test_tokens_of_a_vocabulary(self):
        for c in [c for c in CONTROLS if c not in "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"]:
            model = self.small_model(f"model{ord(c)}", num_layers=1)
            unknown = f"u{c}k"
            vocabulary = self.folder / model / "vocab.txt"
            vocabulary.write_text(vocabulary.read_text().replace("[UNK]", unknown), encoding="utf-8", newline="")
            config = self.folder / model / "tokenizer_config.json"
            config.write_text(json.dumps({**json.loads(config.read_text()), "unk_token": unknown}))
            with self.subTest(f"U+{ord(c):04X}"):
                command = ("inspect", "dog dog", "--model", model)
                self.assert_clean(self.output_of(*command, "--no-html"), c)
                out = self.output_of(*command, "--no-html", "--json", "-")
                self.assert_clean(out)
                self.assertEqual(json.loads(out)["tokens"][1]["text"], unknown)
                self.assert_clean(self.output_of(*command, "--html", "-"))
                self.assert_clean(self.output_of("explain", "dog dog", "--model", model), c)

    def test_texts(self):
        model = self.small_model()
        text = "the " + "".join(CONTROLS[1:]) + " cat"
        for flags in (("--no-html",), ("--no-html", "--json", "-"), ("--html", "-")):
            out = self.output_of("inspect", text, "--model", model, *flags)
            self.assert_clean(out)
        self.assertEqual(json.loads(self.output_of("inspect", text, "--model", model, "--no-html", "--json", "-"))["text"],
                         text)

    def test_names_of_files(self):
        for name in self.names():
            self.small_model(name)
            shown = name[1:]
            inspect = ("inspect", "the cat", "--model", name)
            self.assert_clean(self.run_it(*inspect, "--no-html")[1].replace("\n", ""), shown)
            for flag, line in (("--json", "Numbers: "), ("--probs", "Maps: "), ("--html", "Page: ")):
                out = self.output_of(*inspect, *(() if flag == "--html" else ("--no-html",)), flag, name + "x")
                self.assert_clean(out)
                self.assert_clean(out.split(line)[1], shown)
            for flags in (("--no-html", "--json", "-"), ("--html", "-")):
                self.assert_clean(self.output_of(*inspect, *flags))
            self.assert_clean(self.output_of("explain", "the", "--model", name).replace("\n   ", ""), shown)
            self.assert_clean(self.output_of("explain", "the", "--d-model", "8", "--json", name + "x"), shown)

    def test_conformance_cases(self):
        for name in self.names():
            case = self.folder / name
            case.mkdir()
            (case / "model.onnx").write_bytes(b"\x3a\x7f")
            code, out, err = self.run_it("onnx", name)
            self.assertEqual((code, err), (1, ""))
            self.assert_clean(out, name[1:])

    def test_errors(self):
        for name in self.names():
            shown = name[1:]
            for arguments in ((name,), ("help", name), ("inspect", "the", "--model", name), ("inspect", "--file", name),
                              ("explain", "the", "--json", name + "/x"), ("explain", "the", "--layer", name),
                              ("explain", "the", "--seed", name), ("onnx", "a", "--rtol", name), ("onnx", name),
                              ("inspect", "the", "--" + name), ("inspect", "the", "--json", "--" + name),
                              ("explain", "the", name), ("explain", "the", "--file", name),
                              ("inspect", "the", "--model", ".", "--json", name + "/x")):
                with self.subTest(arguments):
                    done = self.run_bytes(*arguments)
                    self.assertIn(done.returncode, (1, 2))
                    self.assertEqual(done.stdout, b"")
                    err = done.stderr.decode()
                    self.assertEqual(err.count("\n"), 1, "one line")
                    self.assert_clean(err, () if arguments[-2:-1] == ("--file",) and arguments[1] == "the" else shown)

    def test_bytes_that_are_not_utf8(self):
        for byte in (0x80, 0x9B, 0xFF):
            done = self.run_bytes("inspect", "a", "--model", bytes([byte]))
            self.assertIn(f"\\x{byte:02X}", done.stderr.decode())


if __name__ == "__main__":
    cli_support.main()
