#!/usr/bin/env python3
"""Standard input and output of the command, and its end by signals."""

import json
import os
import signal
import subprocess
import time

import cli_support
from cli_support import CommandTest, read_safetensors

EXPLAIN = ("explain", "the cat sat", "--d-model", "8", "--num-heads", "2")


class Streams(CommandTest):
    def all_outputs(self):
        model = self.small_model()
        return [("--help",), ("help",), ("--version",), ("-V",), ("help", "inspect"), ("inspect", "--help"),
                ("explain", "--help"), ("onnx", "--help"), EXPLAIN, (*EXPLAIN, "--json", "-"),
                ("inspect", "the cat", "--model", model, "--no-html"),
                ("inspect", "the cat", "--model", model, "--no-html", "--json", "-"),
                ("inspect", "the cat", "--model", model, "--no-html", "--probs", "-"),
                ("inspect", "the cat", "--model", model, "--html", "-"),
                ("inspect", "the cat", "--model", model, "--html", "/dev/stdout")]

    def test_a_full_disk_is_an_error(self):
        for arguments in self.all_outputs():
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([cli_support.MULTIHEAD, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      cwd=self.folder)
                self.assertEqual((done.returncode, done.stderr.decode()),
                                 (1, "multihead: cannot write standard output: No space left on device\n"))

    def test_a_closed_output_is_an_error_and_no_file_takes_its_place(self):
        model = self.small_model()
        for arguments in [*self.all_outputs(),
                          ("inspect", "the cat", "--model", model, "--no-html", "--json", "x.json")]:
            with self.subTest(arguments):
                done = self.run_bytes(*arguments, preexec_fn=lambda: os.close(1))
                self.assertEqual((done.returncode, done.stderr.decode()),
                                 (1, "multihead: cannot write standard output: Bad file descriptor\n"))
        self.assertEqual(json.loads((self.folder / "x.json").read_bytes())["num_tokens"], 4)
        self.assertEqual(self.run_bytes("inspect", preexec_fn=lambda: os.close(0)).stderr,
                         b"multihead: cannot read standard input: Bad file descriptor\n")

    def test_a_reader_who_leaves_ends_the_command_quietly(self):
        for ignored in (False, True):
            for arguments in self.all_outputs():
                with self.subTest(arguments, ignored=ignored):
                    reader, writer = os.pipe()
                    os.close(reader)
                    disposition = signal.SIG_IGN if ignored else signal.SIG_DFL
                    done = subprocess.run([cli_support.MULTIHEAD, *arguments], stdout=writer, stderr=subprocess.PIPE,
                                          cwd=self.folder, restore_signals=False,
                                          preexec_fn=lambda: signal.signal(signal.SIGPIPE, disposition))
                    os.close(writer)
                    self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))

    def test_a_dash_is_standard_output_and_nothing_else_is_there(self):
        model = self.small_model()
        inspect = ("inspect", "the cat", "--model", model, "--no-html")
        for path in ("-", "/dev/stdout", "/dev/fd/1"):
            self.assertEqual(json.loads(self.output_of(*inspect, "--json", path))["text"], "the cat")
            self.assertEqual(json.loads(self.output_of(*EXPLAIN, "--json", path))["tokens"], ["the", "cat", "sat"])
        page = self.output_of("inspect", "the cat", "--model", model, "--html", "-")
        self.assertTrue(page.lstrip().lower().startswith("<!doctype html>") and page.rstrip().endswith("</html>"))
        done = self.run_bytes(*inspect, "--probs", "-")
        (self.folder / "copy").write_bytes(done.stdout)
        self.assertEqual(list(read_safetensors(self.folder / "copy")), ["layers.0.probs", "layers.1.probs"])
        (self.folder / "copy").unlink()
        self.assertEqual([name for name in self.contents() if "/" not in name], ["model"], "no file called -")
        for flags in (("--json", "-", "--html", "-"), ("--json", "/dev/stdout", "--probs", "-")):
            self.assertRegex(self.run_it("inspect", "the", "--model", model, *flags)[2],
                             r"^multihead: inspect: --(html|probs) must not name the file of --json, got \"-\"\n$")

    def test_a_text_from_standard_input(self):
        model = self.small_model()
        expected = self.output_of("inspect", "the cat", "--model", model, "--no-html")
        (self.folder / "text").write_text("the cat")
        for arguments in ((), ("-",), ("--file", "-"), ("--file", "/dev/stdin"), ("--file", "text")):
            self.assertEqual(expected, self.output_of("inspect", *arguments, "--model", model, "--no-html",
                                                      stdin=b"the cat"), arguments)
        self.assertEqual(self.output_of(*EXPLAIN), self.output_of("explain", *EXPLAIN[2:], stdin=b"the cat sat"))
        empty = "the text must not be empty; give it as TEXT or with --file"
        for command in ("inspect", "explain"):
            for arguments in ((), ("-",), ("",), ("--file", "-")):
                self.assert_refused(2, f"{command}: {empty}", command, *arguments)
            ours, theirs = os.openpty()
            done = subprocess.run([cli_support.MULTIHEAD, command], stdin=theirs, capture_output=True, timeout=60)
            os.close(ours), os.close(theirs)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, f"multihead: {command}: {empty}\n"))

    def test_a_text_without_end_is_refused(self):
        self.assert_refused(1, 'a text must have at most 16777216 bytes, got more from "/dev/zero"',
                            "explain", "--file", "/dev/zero")
        self.assert_refused(1, f'cannot read "{self.folder}": Is a directory', "explain", "--file", str(self.folder))

    def test_a_signal_while_a_file_is_written_leaves_none(self):
        model = self.small_model(max_positions=512, num_layers=6, num_heads=12, d_model=12)
        before = self.contents()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = subprocess.Popen([cli_support.MULTIHEAD, "inspect", "the cat sat on mat " * 110, "--model",
                                            model, "--probs", "maps", "--no-html"], cwd=self.folder,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                while process.poll() is None and not list(self.folder.glob(".multihead.*")):
                    time.sleep(0.0005)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual((process.returncode, out, err), (-number, b"", b""))
                self.assertEqual(self.contents(), before)

    def test_a_signal_that_is_ignored_stays_so(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        process = subprocess.Popen([cli_support.MULTIHEAD, *EXPLAIN, "--json", pipe], stdout=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        with open(pipe, "rb") as reader:  # the command has come to its output
            process.send_signal(signal.SIGHUP)
            json.loads(reader.read())
        process.communicate()
        self.assertEqual(process.returncode, 0)

    def test_a_signal_while_a_pipe_waits(self):
        os.mkfifo(self.folder / "pipe")
        process = subprocess.Popen([cli_support.MULTIHEAD, *EXPLAIN, "--json", "pipe"], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (-signal.SIGTERM, b"", b""))
        self.assertEqual(self.contents(), {"pipe": "other"})


if __name__ == "__main__":
    cli_support.main()
