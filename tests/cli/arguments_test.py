#!/usr/bin/env python3
"""The words of a command line: what does not fit is refused with what was meant."""

import cli_support
from cli_support import CommandTest


class Arguments(CommandTest):
    def refused(self, text, command, *arguments, **more):
        self.assert_refused(2, f"{command}: {text} (multihead {command} --help)", command, *arguments, **more)

    def test_a_value_that_is_missing(self):
        for command, flags in (("inspect", ("--json", "--html", "--probs", "--file", "-o")),
                               ("explain", ("--json", "--file"))):
            for flag in flags:
                self.refused(f"{flag} needs a file", command, "a", flag)
                self.refused(f"{flag} needs a file", command, "a", flag, "")
                for option in ("--no-html", "--json", "-o", "-1", "--"):
                    self.refused(f'{flag} needs a file, got the option "{option}"', command, "a", flag, option)
                if flag != "-o":
                    self.refused(f"{flag} needs a file", command, "a", flag + "=")
        self.refused('--model needs a folder, got the option "--layer"', "inspect", "a", "--model", "--layer", "1")
        for command, flag in (("inspect", "--layer"), ("inspect", "--head"), ("inspect", "--threads"),
                              ("explain", "--seed"), ("explain", "--d-model"), ("onnx", "--rtol")):
            self.refused(f"{flag} needs a number", command, "a", flag)
            self.refused(f'{flag} needs a number, got the option "--json"', command, "a", flag, "--json")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_file_whose_name_begins_with_a_dash(self):
        self.output_of("explain", "a", "--d-model", "8", "--json=--no-html")
        self.assertTrue((self.folder / "--no-html").exists())

    def test_options_that_do_not_exist(self):
        for command, word, meant in (("inspect", "--layers", "--layer"), ("inspect", "--no_html", "--no-html"),
                                     ("inspect", "--NO-HTML", "--no-html"), ("inspect", "--heads", "--head"),
                                     ("inspect", "--jsn", "--json"), ("inspect", "-json", "--json"),
                                     ("inspect", "--modle", "--model"), ("explain", "--d_model", "--d-model"),
                                     ("explain", "--num_heads", "--num-heads"), ("onnx", "--tol", "--rtol")):
            self.refused(f'unknown option "{word}"; did you mean "{meant}"?', command, "a", word)
        self.refused('unknown option "--layers"; did you mean "--layer"?', "inspect", "a", "--layers=3")
        self.refused('unknown option "--bogus"', "inspect", "a", "--bogus")
        self.refused('unknown option "-1"; a text that begins with "-" stands after "--"', "explain", "-1")
        self.assertIn("1 tokens", self.output_of("explain", "--d-model", "8", "--", "-1"))
        self.refused("--json must be given once", "inspect", "a", "--json", "a", "--json", "b")

    def test_words_without_quotes(self):
        self.refused('a text of several words needs quotes: multihead inspect "the cat sat"', "inspect", "the", "cat", "sat")
        self.refused('a text of several words needs quotes: multihead explain "a b c"',
                     "explain", "a", "--seed", "3", "b", "c")
        self.refused(r'a text of several words needs quotes: multihead explain "a \"b\" \$c \`d\\"',
                     "explain", "a", '"b"', "$c", "`d\\")

    def test_help_and_version_by_their_other_names(self):
        for command in ("inspect", "explain", "onnx"):
            expected = self.output_of(command, "--help")
            for words in (("help", command), ("--help", command), (command, "-h"), (command, "a", "--bogus", "--help")):
                self.assertEqual(self.output_of(*words), expected)
        self.assertEqual(self.output_of("help"), self.output_of("--help"))
        self.assertEqual(self.output_of("-V"), self.output_of("--version"))
        self.assert_refused(2, 'unknown command "inspekt"; did you mean "inspect"? (multihead --help lists them)',
                            "help", "inspekt")
        self.assert_refused(2, 'unknown command "--Inspect"; did you mean "inspect"? (multihead --help lists them)',
                            "--Inspect")

    def test_whole_numbers(self):
        wrong = ("-1", "abc", "1e3", " 3", "3 ", "+3", "0x10", "3.0", "1_000", "1'000", "٣", "18446744073709551616",
                 "99999999999999999999999", "-0", "1,2", "nan", "[1]", "1\n")
        most = {"--seed": 2**64 - 1, "--layer": 2**31 - 1, "--head": 2**31 - 1, "--threads": 4096, "--d-model": 8192,
                "--num-heads": 8192}
        flags = [("explain", flag) for flag in ("--seed", "--layer", "--head", "--d-model", "--num-heads")]
        flags += [("inspect", flag) for flag in ("--layer", "--head", "--threads")] + [("onnx", "--threads")]
        for command, flag in flags:
            lowest = 1 if flag in ("--d-model", "--num-heads") else 0
            beyond = [str(most[flag] + 1)] + (["0"] if lowest else [])
            for value in (*wrong, *beyond):
                shown = value.replace("\n", "U+000A")
                self.refused(f'{flag} must be a whole number in [{lowest}, {most[flag]}], got "{shown}"',
                             command, "a", flag, value)
            self.refused(f"{flag} needs a number", command, "a", f"{flag}=")
        self.output_of("explain", "a", "--d-model", "8", "--seed", str(2**64 - 1))
        self.output_of("explain", "a", "--d-model", "8", "--seed", "0")

    def test_tolerances(self):
        for flag in ("--rtol", "--atol"):
            for value in ("-1", "abc", "nan", "inf", "1e999", " 3", "+3", "0x1p3", "1,5", "-0"):
                self.refused(f'{flag} must be a finite number, 0 or more, such as 1e-3, got "{value}"',
                             "onnx", "a", flag, value)


if __name__ == "__main__":
    cli_support.main()
