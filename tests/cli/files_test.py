#!/usr/bin/env python3
"""Files that the command writes: complete or as they were, and refused before the work where they cannot be written."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import threading

import cli_support
from cli_support import CommandTest, read_safetensors

NOBODY = 65534


class Files(CommandTest):
    def setUp(self):
        super().setUp()
        self.inspect = ("inspect", "the cat sat", "--model", self.small_model())
        self.explain = ("explain", "the cat sat", "--d-model", "8", "--num-heads", "2")

    def commands(self, path):
        """One for each kind of output file."""
        return [(*self.inspect, "--no-html", "--json", path), (*self.inspect, "--no-html", "--probs", path),
                (*self.inspect, "--html", path), (*self.explain, "--json", path)]

    def test_a_file_that_is_refused_changes_nothing(self):
        (self.folder / "old").write_text("old")
        (self.folder / "full").mkdir()
        (self.folder / "full" / "x").write_text("old")
        (self.folder / "circle").symlink_to("circle")
        before = self.contents()
        for path, reason in (("no/x", "No such file or directory"), ("full", "Is a directory"),
                             ("old/x", "Not a directory"), ("circle", "Too many levels of symbolic links"),
                             ("x" * 300, "File name too long"), ("full/", "Is a directory"),
                             ("/dev/fd/77", "Bad file descriptor")):
            for command in self.commands(path):
                with self.subTest(command):
                    self.assert_refused(1, f'cannot write "{path}": {reason}', *command)
                    self.assertEqual(self.contents(), before)

    def test_an_error_of_the_work_changes_nothing(self):
        (self.folder / "old").write_text("old")
        self.small_model("none", num_layers=0)
        before = self.contents()
        for command in (("inspect", "the", "--model", "none"), (*self.inspect, "--layer", "9"),
                        ("explain", "the", "--layer", "9", "--model", "model"), ("explain", "a", "--head", "99"),
                        ("explain", b"a\xff"), (*self.inspect, "--bogus"), (*self.inspect, "--threads", "x")):
            for flag in ("--json",) if command[0] == "explain" else ("--json", "--html", "--probs"):
                for name in ("old", "new"):
                    with self.subTest(command, flag=flag):
                        self.assertIn(self.run_bytes(*command, flag, name).returncode, (1, 2))
                        self.assertEqual(self.contents(), before)

    def test_a_full_disk_leaves_the_old_bytes_and_shows_the_table(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        (self.folder / "old").write_text("old")
        before = self.contents()
        for name in ("old", "new"):
            for command in self.commands(name):
                with self.subTest(command):
                    done = self.run_bytes(*command, preexec_fn=limit)
                    self.assertEqual((done.returncode, done.stderr.decode()),
                                     (1, f'multihead: cannot write "{name}": File too large\n'))
                    self.assertEqual(self.contents(), before)
                    if command[0] == "inspect":
                        self.assertIn(b"Layer 0, head ", done.stdout)

    def test_permissions_stay(self):
        for mode in (0o600, 0o640, 0o666, 0o755):
            for command in self.commands("x"):
                (self.folder / "x").write_text("old")
                (self.folder / "x").chmod(mode)
                self.output_of(*command)
                self.assertEqual(stat.S_IMODE((self.folder / "x").stat().st_mode), mode)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model", "x"])

    def test_links_are_followed(self):
        (self.folder / "far").mkdir()
        for command in self.commands("link"):
            for target in ("far/x", str(self.folder / "far" / "x")):
                for existing in (False, True):
                    link = self.folder / "link"
                    link.symlink_to(target)
                    if existing:
                        (self.folder / "far" / "x").write_text("old")
                    self.output_of(*command)
                    self.assertTrue(link.is_symlink())
                    self.assertGreater((self.folder / "far" / "x").stat().st_size, 100)
                    link.unlink()
                    (self.folder / "far" / "x").unlink()

    def test_pipes_are_written_to(self):
        os.mkfifo(self.folder / "pipe")
        for command in self.commands("pipe"):
            read = []
            reader = threading.Thread(target=lambda: read.append((self.folder / "pipe").read_bytes()))
            reader.start()
            self.output_of(*command)
            reader.join()
            self.assertGreater(len(read[0]), 100)
            self.assertTrue((self.folder / "pipe").is_fifo())
        for command in self.commands("/dev/null"):
            self.output_of(*command)
        self.output_of(*self.inspect, "--json", "/dev/null", "--probs", "/dev/null", "--html", "/dev/null")
        with open(self.folder / "x", "wb") as file:
            self.run_bytes(*self.inspect, "--no-html", "--json", f"/dev/fd/{file.fileno()}", pass_fds=[file.fileno()])
        self.assertEqual(json.loads((self.folder / "x").read_bytes())["num_tokens"], 5)

    def test_one_file_is_not_two(self):
        (self.folder / "text").write_text("the cat sat")
        (self.folder / "link").symlink_to("text")
        os.link(self.folder / "text", self.folder / "hard")
        (self.folder / "dangling").symlink_to("new")
        before = self.contents()
        model = self.inspect[2:]

        def refused(command, flag, what, path, *arguments, **more):
            self.assert_refused(2, f'{command}: {flag} must not name {what}, got "{path}"', command, *arguments, **more)
            self.assertEqual(self.contents(), before)

        for path in ("text", "link", "hard", "./model/../text", str(self.folder / "text")):
            refused("explain", "--json", "the file that is read", path, "--file", "text", "--json", path)
            for flag in ("--json", "--html", "--probs"):
                more = () if flag == "--html" else ("--no-html",)
                refused("inspect", flag, "the file that is read", path, "--file", "text", *model, *more, flag, path)
            with open(self.folder / "text") as stdin:
                done = subprocess.run([cli_support.MULTIHEAD, "explain", "--json", path], stdin=stdin,
                                      cwd=self.folder, capture_output=True)
            self.assertEqual((done.returncode, done.stderr.decode()), (
                2, f'multihead: explain: --json must not name the file of standard input, got "{path}"\n'))
        for other in ("new", "./new", "dangling"):
            refused("inspect", "--html", "the file of --json", other, "the", *model, "--json", "new", "--html", other)
            refused("inspect", "--probs", "the file of --json", other, "the", *model, "--json", "new", "--probs", other)
        for name in ("config.json", "vocab.txt", "model.safetensors", "tokenizer_config.json"):
            path = f"model/{name}"
            refused("inspect", "--json", "a file of the model", path, "the", *model, "--json", path)
            refused("explain", "--json", "a file of the model", path, "the", *model, "--json", path)
        with open(self.folder / "text", "ab") as stdout:
            done = subprocess.run([cli_support.MULTIHEAD, "explain", "a", "--json", "text"], stdout=stdout,
                                  stderr=subprocess.PIPE, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr.decode()), (
            2, 'multihead: explain: --json must not name the file of standard output, got "text"\n'))
        self.assertEqual(self.contents(), before)

    def test_an_output_in_the_model_folder_can_be_written_again(self):
        for _ in range(2):
            self.output_of(*self.inspect, "--html", "model/heads.html", "--json", "model/heads.json")

    def test_a_folder_that_is_read_only(self):
        """As somebody who is not root, who may write anywhere."""
        locked = self.folder / "locked"
        locked.mkdir()
        (locked / "old").write_text("old")
        os.chmod(self.folder, 0o755)
        os.chmod(locked, 0o555)
        user = {"user": NOBODY} if os.geteuid() == 0 else {}
        command = shutil.copy(cli_support.MULTIHEAD, self.folder / "multihead")  # where anybody can read it
        before = self.contents()

        def run(*arguments):
            done = subprocess.run([command, *arguments], capture_output=True, cwd=locked, **user)
            self.assertEqual(self.contents(), before)
            return done.returncode, done.stdout.decode(), done.stderr.decode()

        inspect = ("inspect", "the cat sat", "--model", "../model")
        for flags in (("--html", "new"), ("--no-html", "--json", "new"), ("--no-html", "--probs", "new"),
                      ("--html", "old"), ("--no-html", "--json", "old")):
            self.assertEqual(run(*inspect, *flags), (1, "", f'multihead: cannot write "{flags[-1]}": Permission denied\n'))
        code, out, err = run(*inspect)
        self.assertEqual((code, err), (1, 'multihead: cannot write "heads.html": Permission denied; --no-html writes no '
                                          "page, --html FILE writes it elsewhere\n"))
        self.assertEqual(run(*inspect, "--no-html"), (0, out, ""))
        os.chmod(locked, 0o755)

    def test_names_that_are_not_utf8(self):
        name = os.fsencode(self.folder) + b"/mod\xe8le"
        shutil.copytree(self.folder / "model", os.fsdecode(name))
        for out in ("x.json", "-"):
            text = self.run_bytes("inspect", "the cat", "--no-html", "--model", name, "--json", out)
            self.assertEqual((text.returncode, text.stderr), (0, b""))
        self.assertEqual(json.loads(text.stdout.decode()),
                         json.loads((self.folder / "x.json").read_text(encoding="utf-8")))
        self.assertTrue(json.loads(text.stdout.decode())["model"].endswith("mod\ufffdle"))
        table = self.run_bytes("inspect", "the cat", "--model", name, "--html", b"p\xe9ge", "--json", b"j\xe9",
                               "--probs", b"m\xe9")
        self.assertEqual((table.returncode, table.stderr), (0, b""))
        for line in ("mod\\xE8le: 2 layers", "Page: p\\xE9ge", "Numbers: j\\xE9", "Maps: m\\xE9"):
            self.assertIn(line, table.stdout.decode())
        with open(os.fsencode(self.folder) + b"/p\xe9ge", encoding="utf-8") as page:
            self.assertIn("mod\\xE8le", page.read())
        steps = self.run_bytes("explain", "the cat", "--model", name, "--json", "-")
        self.assertEqual(json.loads(steps.stdout.decode())["tokens"], ["[CLS]", "the", "cat", "[SEP]"])
        self.assertIn("layer 0 of mod\\xE8le", self.run_bytes("explain", "the cat", "--model", name).stdout.decode())
        for arguments, text in ((("inspect", "the", "--model", b"\xe9"), 'no model at "\\xE9"'),
                                (("inspect", "--file", b"\xe9"), 'cannot read "\\xE9"'),
                                (("explain", "a", "--json", b"\xe9/x"), 'cannot write "\\xE9/x"')):
            self.assertIn(text, self.run_bytes(*arguments).stderr.decode())

    def test_maps_as_safetensors(self):
        model = self.small_model("wide", max_positions=64, num_layers=3, num_heads=4)
        self.output_of("inspect", "the cat sat on mat " * 9, "--model", model, "--no-html", "--json", "x.json", "--probs",
                       "maps.safetensors")
        heads = json.loads((self.folder / "x.json").read_text())
        self.assertNotIn("probs", heads["heads"][0])
        maps = read_safetensors(self.folder / "maps.safetensors")
        n = heads["num_tokens"]
        self.assertEqual(n, 47)
        self.assertEqual({name: shape for name, (shape, _) in maps.items()},
                         {f"layers.{layer}.probs": [4, n, n] for layer in range(3)})
        for head in heads["heads"]:
            values = maps[f"layers.{head['layer']}.probs"][1][head["head"] * n * n:][:n * n]
            for i in range(n):
                self.assertAlmostEqual(sum(values[i * n:(i + 1) * n]), 1, delta=1e-5)
            for link in head["links"]:
                self.assertEqual(link["prob"], values[link["query"] * n + link["key"]])


if __name__ == "__main__":
    cli_support.main()
