"""What the tests of the command share: running it, a small model, and what a terminal would show.

A test program ends in cli_support.main(): PROGRAM MULTIHEAD [GROUP...]
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = CACHE / "multihead" / "models" / "minilm"

# What must not reach a terminal: C0, DEL, C1, marks, embeddings and isolates of direction, line separators.
CONTROLS = [chr(c) for c in [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029,
                             *range(0x202A, 0x202F), *range(0x2066, 0x206A)]]
# Those that an argument or a file's name may hold.
CONTROLS_IN_NAMES = [c for c in CONTROLS if c not in "\0"]


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_bytes(self, *arguments, stdin=b"", environment=None, **more):
        return subprocess.run([MULTIHEAD, *arguments], input=stdin, capture_output=True, cwd=self.folder,
                              env={**os.environ, **(environment or {})}, timeout=120, **more)

    def run_it(self, *arguments, stdin=b"", **environment):
        done = self.run_bytes(*arguments, stdin=stdin, environment=environment)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def output_of(self, *arguments, **more):
        code, out, err = self.run_it(*arguments, **more)
        self.assertEqual((code, err), (0, ""))
        return out

    def assert_refused(self, code, text, *arguments, **more):
        self.assertEqual(self.run_it(*arguments, **more), (code, "", f"multihead: {text}\n"))

    def contents(self):
        """Every file under the folder with its bytes, and links and pipes by their kind."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            kind = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else "other"
            found[str(path.relative_to(self.folder))] = kind
        return found

    def small_model(self, name="model", **changes):
        if not (self.folder / name).exists():
            make_model(self.folder / name, **changes)
        return name


def columns(text):
    """What a terminal gives a text, for the characters used here: CJK and emoji wide, combining marks nothing, and
    what is joined as much as its first."""
    text = re.sub("\u200d.", "", text)
    return sum(0 if unicodedata.combining(c) or c == "\ufe0f" else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def write_safetensors(path, tensors):
    """tensors: name -> (shape, floats)"""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        more = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """name -> (shape, floats), of f32 tensors"""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
        found[name] = (entry["shape"], values)
    return found


def make_model(folder, words="the cat sat on mat", num_layers=2, num_heads=2, d_model=8, max_positions=32,
               model_max_length=None, pruned=None):
    """A BERT of random weights, with a vocabulary of a few words. pruned: layer -> heads that it has lost"""
    chance = random.Random(7)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split()]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    limits = {} if model_max_length is None else {"model_max_length": model_max_length}
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **limits}))
    config = {"model_type": "bert", "hidden_size": d_model, "num_hidden_layers": num_layers,
              "num_attention_heads": num_heads, "intermediate_size": 2 * d_model, "vocab_size": len(vocabulary),
              "max_position_embeddings": max_positions, "type_vocab_size": 2}
    pruned = pruned or {}
    config.update({"pruned_heads": {str(layer): heads for layer, heads in pruned.items()}} if pruned else {})
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {}

    def add(name, *shape):
        size = 1
        for extent in shape:
            size *= extent
        tensors[name] = (list(shape), [chance.gauss(0, 1) for _ in range(size)])

    def linear(name, outputs, inputs):
        add(name + ".weight", outputs, inputs)
        add(name + ".bias", outputs)

    def norm(name):
        add(name + ".weight", d_model)
        add(name + ".bias", d_model)

    add("embeddings.word_embeddings.weight", len(vocabulary), d_model)
    add("embeddings.position_embeddings.weight", max_positions, d_model)
    add("embeddings.token_type_embeddings.weight", 2, d_model)
    norm("embeddings.LayerNorm")
    for layer in range(num_layers):
        at = f"encoder.layer.{layer}."
        width = d_model // num_heads * (num_heads - len(pruned.get(layer, [])))
        for part in ("query", "key", "value"):
            linear(f"{at}attention.self.{part}", width, d_model)
        linear(at + "attention.output.dense", d_model, width)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", 2 * d_model, d_model)
        linear(at + "output.dense", d_model, 2 * d_model)
        norm(at + "output.LayerNorm")
    write_safetensors(folder / "model.safetensors", tensors)


def main():
    global MULTIHEAD
    MULTIHEAD = sys.argv.pop(1)
    unittest.main(module="__main__", verbosity=1)
