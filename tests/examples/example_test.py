#!/usr/bin/env python3
"""Runs an example and compares what it prints with its last comment: example_test.py SOURCE PROGRAM

    // Prints:
    //   first line
    //   second line

An example that takes MODEL_DIR gets the MiniLM of the cache folder; without one the test is skipped.
"""

import os
import pathlib
import subprocess
import sys

source, program = sys.argv[1:]
text = pathlib.Path(source).read_text(encoding="utf-8")
_, found, expected = text.rpartition("// Prints:\n")
if not found:
    sys.exit(f'{source}: must end in a comment "// Prints:" with the output')
expected = "".join(line.removeprefix("//   ") for line in expected.splitlines(keepends=True))

arguments = []
if "MODEL_DIR" in text:
    model = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "multihead/models/minilm"
    if not model.is_dir():
        print("skipped: scripts/get-model minilm has not been run")
        sys.exit(77)
    arguments = [str(model)]

done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
if done.returncode != 0 or done.stdout != expected:
    sys.exit(f"{program} must print\n{expected}got exit code {done.returncode} and\n{done.stdout}")
