#!/usr/bin/env python3
"""`multihead inspect --model FOLDER` for folders as they lie on people's disks.

    folder_test.py MULTIHEAD SOURCE_DIR
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PRUNED = {"0": [1], "1": [0, 2]}  # of 4 heads: 0.0, 0.2, 0.3 and 1.1, 1.3 are left
HEAD_DIM = 8


def safetensors(path):
    """The header and the data of a file."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), raw[end:]


def write_safetensors(path, tensors):
    """tensors: name -> (shape, bytes), all F32"""
    header, data = {}, b""
    for name, (shape, part) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def prune(shape, data, name, layer):
    """The rows of query, key and value, and the columns of the output, of the heads that are left."""
    left = [h for h in range(4) if h not in PRUNED[str(layer)]]
    row = 4 * (shape[1] if len(shape) > 1 else 1)
    if ".attention.self." in name:
        width = HEAD_DIM * row
        return [HEAD_DIM * len(left), *shape[1:]], b"".join(data[h * width:(h + 1) * width] for h in left)
    if name.endswith("attention.output.dense.weight"):
        width = HEAD_DIM * 4
        rows = [data[i * row:(i + 1) * row] for i in range(shape[0])]
        return [shape[0], HEAD_DIM * len(left)], b"".join(r[h * width:(h + 1) * width] for r in rows for h in left)
    return shape, data


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "model"
        shutil.copytree(SOURCE / "tests/golden/data/bert", self.folder)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxy"]
        (self.folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")

    def inspect(self, *arguments, model=None):
        done = subprocess.run([MULTIHEAD, "inspect", "--no-html", "--model", model or self.folder, *arguments],
                              capture_output=True, cwd=self.folder.parent)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def assert_refused(self, text, model=None):
        self.assertEqual(self.inspect("a b c", model=model), (1, "", f"multihead: {text}\n"))

    def edit_config(self, **changes):
        path = self.folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def test_heads_of_a_pruned_model_keep_their_numbers(self):
        self.edit_config(pruned_heads=PRUNED)
        header, data = safetensors(self.folder / "model.safetensors")
        header.pop("__metadata__", None)
        tensors = {}
        for name, entry in header.items():
            part = data[entry["data_offsets"][0]:entry["data_offsets"][1]]
            layer = re.match(r"encoder\.layer\.(\d+)\.", name)
            tensors[name] = prune(entry["shape"], part, name, layer[1]) if layer else (entry["shape"], part)
        write_safetensors(self.folder / "model.safetensors", tensors)

        code, out, err = self.inspect("a b c d e", "--json", "heads.json", "--layer", "1", "--head", "3")
        self.assertEqual((code, err), (0, ""))
        expected = [(0, 0), (0, 2), (0, 3), (1, 1), (1, 3)]
        table = re.findall(r"(?m)^[ >](\d+)\.(\d+) +[\d.]+ +[\d.]+ +\d+%", out)
        self.assertEqual([tuple(map(int, head)) for head in table], expected)
        self.assertRegex(out, r"(?m)^>1\.3 ")
        self.assertIn("Layer 1, head 3", out)
        numbers = json.loads((self.folder.parent / "heads.json").read_text())
        self.assertEqual([(head["layer"], head["head"]) for head in numbers["heads"]], expected)
        self.assertEqual(numbers["shown"], {"layer": 1, "head": 3})
        self.assertEqual(self.inspect("a b", "--layer", "0", "--head", "1")[0], 2)
        self.assertIn("Layer 0, head 2", self.inspect("a b", "--layer", "0", "--head", "2")[1])

    def test_what_is_no_model_folder(self):
        weights = self.folder / "model.safetensors"
        self.assert_refused(f'load_text_encoder: a model must be given as its folder, got a file; give "{self.folder}" '
                            f'("{weights}")', model=weights)
        hub = self.folder.parent / "models--org--name"
        (hub / "snapshots").mkdir(parents=True)
        (hub / "refs").mkdir()
        (hub / "refs/main").write_text("abc123")
        self.folder.rename(hub / "snapshots/abc123")
        entry = ("load_text_encoder: the folder must hold the files of a model, got an entry of the hub's cache; give "
                 f'"{hub}/snapshots/abc123" ("{hub}")')
        self.assert_refused(entry, model=hub)
        self.assertEqual(self.inspect("a b", model=hub / "snapshots/abc123")[0], 0)
        self.assert_refused("load_text_encoder: the folder must hold the files of a model, got a cache of the hub; give "
                            f'"{hub}/snapshots/abc123" ("{hub.parent}")', model=hub.parent)

    def test_models_of_other_kinds(self):
        for model_type, architecture in (("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM"), ("new", "NewForCausalLM")):
            self.edit_config(model_type=model_type, architectures=[architecture])
            self.assert_refused("load_encoder_config: model_type must be one of bert, roberta, xlm-roberta, camembert, "
                                f'distilbert, got model_type="{model_type}"; decoder models are not read yet')

    def test_weights_that_are_not_there(self):
        weights = self.folder / "model.safetensors"
        weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 66064\n")
        self.assert_refused("load_safetensors: the file must hold its content, got a Git LFS pointer; run git lfs pull in "
                            f'its folder ("{weights}")')
        weights.rename(self.folder / "pytorch_model.bin")
        self.assert_refused("load_safetensors: the folder must hold model.safetensors or model.safetensors.index.json, got "
                            'found="pytorch_model.bin"; convert them with transformers: '
                            f'AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER) ("{self.folder}")')

    def test_tokenizers_of_other_kinds(self):
        self.edit_config(model_type="roberta")
        (self.folder / "vocab.txt").unlink()
        for name, kind in (("merges.txt", "byte-level BPE"), ("sentencepiece.bpe.model", "Unigram (SentencePiece)")):
            (self.folder / name).write_text("")
            self.assert_refused("Tokenizer::load: the tokenizer is of a kind that is not handled, got "
                                f'kind="{kind}", found="{name}"; handled: WordPiece ("{self.folder}")')
            (self.folder / name).unlink()
        tokenizer = self.folder / "tokenizer.json"
        for model, step, kind in (("BPE", "ByteLevel", "byte-level BPE"), ("Unigram", "Metaspace", "Unigram (SentencePiece)")):
            tokenizer.write_text(json.dumps({"model": {"type": model}, "pre_tokenizer": {"type": step}}))
            (self.folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}')
            self.assert_refused("Tokenizer::load: model is of a kind that is not handled, got "
                                f'kind="{kind}"; handled: WordPiece ("{tokenizer}")')
        tokenizer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
        self.assert_refused("Tokenizer::load: the file must hold its content, got a Git LFS pointer; run git lfs pull in "
                            f'its folder ("{tokenizer}")')


if __name__ == "__main__":
    MULTIHEAD, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
