#!/usr/bin/env python3
"""Writes what `transformers` and `tokenizers` make of model folders and of pairs of texts, for tests/golden.

    make_folder_goldens.py

Made with Python 3.11, transformers 5.24.0 and tokenizers 0.23.3; needs nothing else.

Files, beside this one:
    folder_cases.json   {"texts", "cases"}: a case is {"name", "vocabulary", "files", "ids"}. "vocabulary" is vocab.txt or
                        tokenizer.json, made of tiny.json; "files" lie beside it; "ids" are those of each text, as
                        AutoTokenizer gives them, or null where this library refuses the folder.
    pair_rooms.json     a line: tokens of the text, of its pair, room, side, first token kept of each, number kept of each
"""

import copy
import json
import os
import pathlib
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

from tokenizers import Tokenizer  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

HERE = pathlib.Path(__file__).parent
TINY = json.loads((HERE / "tiny.json").read_text(encoding="utf-8"))
VOCAB = TINY["model"]["vocab"]
NEXT = len(VOCAB)
LETTERS = "abcdefghi"
TEXTS = ["a [ENT] [ent] b", "Hello CAF\u00c9 caf\u00e9 \u4e2d\u6587", "un [MASK] [FOO]. [PAD]", "[LAST]a [ENT]"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True, **flags}


CONFIG, SPECIAL, ADDED, MODEL = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"
BERT = {"tokenizer_class": "BertTokenizer"}
ENT = {"content": "[ENT]", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}

# name, files, refused by this library. Each is tried beside vocab.txt and beside tokenizer.json.
SETTINGS = [
    ("nothing", {}, ""),
    ("added_tokens", {ADDED: {"[ENT]": NEXT}}, ""),
    ("added_tokens out of order", {ADDED: {"[LAST]": NEXT + 1, "[ENT]": NEXT}}, ""),
    ("added_tokens in the vocabulary", {ADDED: {"hello": VOCAB["hello"]}}, ""),
    ("added_tokens with a hole", {ADDED: {"[ENT]": NEXT + 6}}, "both"),
    ("added_tokens special", {ADDED: {"[ENT]": NEXT}, CONFIG: {"additional_special_tokens": ["[ENT]"]}}, ""),
    ("decoder", {CONFIG: {"added_tokens_decoder": {str(NEXT): token("[ENT]")}}}, ""),
    ("decoder plain", {CONFIG: {"added_tokens_decoder": {str(NEXT): token("[ENT]", special=False, normalized=True)}}}, ""),
    ("decoder beats added_tokens", {CONFIG: {"added_tokens_decoder": {str(NEXT): token("[ENT]")}}, ADDED: {"[FOO]": NEXT}}, ""),
    ("decoder single word", {CONFIG: {"added_tokens_decoder": {str(NEXT): token("[LAST]", single_word=True)}}}, ""),
    ("decoder with another id", {CONFIG: {"added_tokens_decoder": {str(NEXT + 3): token("[ENT]")}}}, "both"),
    ("special of config", {CONFIG: {"additional_special_tokens": ["[ENT]", "[LAST]"]}}, ""),
    ("special of map", {SPECIAL: {"additional_special_tokens": ["[ENT]"]}}, ""),
    ("extra list", {CONFIG: {"extra_special_tokens": ["[ENT]"]}}, ""),
    ("extra names", {CONFIG: {"extra_special_tokens": {"ent_token": "[ENT]"}}}, ""),
    ("token of its own name", {CONFIG: {"ent_token": "[ENT]"}}, ""),
    ("mask", {CONFIG: {"mask_token": "[FOO]"}}, ""),
    ("mask object", {CONFIG: {"mask_token": {"__type": "AddedToken", **ENT}}}, ""),
    ("mask of map", {SPECIAL: {"mask_token": ENT}, CONFIG: {"mask_token": "[FOO]"}}, ""),
    ("eos", {CONFIG: {"eos_token": "[LAST]"}}, ""),
    ("cls", {CONFIG: {**BERT, "cls_token": "hello"}}, "tokenizer.json"),
    ("sep of map", {CONFIG: BERT, SPECIAL: {"sep_token": "hello"}}, "tokenizer.json"),
    ("unk", {CONFIG: {**BERT, "unk_token": "hello"}}, "tokenizer.json"),
    ("cased", {CONFIG: {**BERT, "do_lower_case": False}}, "tokenizer.json"),
    ("lower case", {CONFIG: {**BERT, "do_lower_case": True}}, ""),
    ("accents kept", {CONFIG: {**BERT, "strip_accents": False}}, "tokenizer.json"),
    ("accents by case", {CONFIG: {**BERT, "strip_accents": None}}, ""),
    ("ideographs kept", {CONFIG: {**BERT, "tokenize_chinese_chars": False}}, "tokenizer.json"),
    ("split special tokens", {CONFIG: {"split_special_tokens": True}}, "both"),
    ("padding", {CONFIG: {"padding_side": "right", "pad_token": "[PAD]", "stride": 3, "max_length": 4}}, ""),
    ("class of another family", {CONFIG: {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}}, "both"),
    ("class of config.json", {MODEL: {"model_type": "bert", "tokenizer_class": "RoFormerTokenizer"}}, "both"),
    ("distilbert", {MODEL: {"model_type": "distilbert"}, CONFIG: {"tokenizer_class": "DistilBertTokenizer"}}, ""),
    ("electra", {CONFIG: {"tokenizer_class": "ElectraTokenizerFast"}}, ""),
    ("never_split", {CONFIG: {"never_split": ["[MASK]"]}}, ""),
    ("never_split words", {CONFIG: {"never_split": ["hello"]}}, "both"),
]


def patched(**patch):
    document = copy.deepcopy(TINY)
    document.update(patch)
    return document


def added(*tokens):
    return {"tokenizer.json": patched(added_tokens=TINY["added_tokens"] + list(tokens)),
            CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast"}}


TWICE = [
    ("twice", added({"id": NEXT, **token("[ENT]")}, {"id": NEXT, **token("[ENT]")}), ""),
    ("twice, last plain", added({"id": NEXT, **token("[ENT]")}, {"id": NEXT, **token("[ENT]", special=False, normalized=True)}), ""),
    ("twice, last special", added({"id": NEXT, **token("[ENT]", normalized=True)}, {"id": NEXT, **token("[ENT]")},
                                  {"id": NEXT + 1, **token("[LAST]")}), ""),
    ("twice, last takes spaces", added({"id": 4, **token("[MASK]", lstrip=True, rstrip=True)}), ""),
    ("equal when normalized", added({"id": NEXT, **token("[ENT]", normalized=True)},
                                    {"id": NEXT + 1, **token("[ent]", normalized=True)}), ""),
    ("generic, cased", {"tokenizer.json": patched(normalizer={**TINY["normalizer"], "lowercase": False}),
                        CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast"}}, ""),
    ("generic, cls", {"tokenizer.json": TINY, CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "hello"}}, ""),
]


def ids_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        if "config.json" not in files:
            (pathlib.Path(folder) / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text)["input_ids"] for text in TEXTS]


def folder_cases():
    lines = "".join(word + "\n" for word in sorted(VOCAB, key=VOCAB.get))
    cases = []
    for vocabulary, content in (("vocab.txt", lines), ("tokenizer.json", TINY)):
        for name, files, refused in SETTINGS:
            ids = None if refused in (vocabulary, "both") else ids_of({vocabulary: content, **files})
            cases.append({"name": f"{vocabulary}: {name}", "vocabulary": vocabulary, "files": files, "ids": ids})
    for name, files, _ in TWICE:
        cases.append({"name": name, "vocabulary": None, "files": files, "ids": ids_of(files)})
    return {"texts": TEXTS, "cases": cases}


def pair_rooms():
    tokenizer = Tokenizer.from_str(json.dumps(TINY))
    rooms = []
    for sizes in [(6, 6), (7, 5), (5, 7), (6, 7), (7, 6), (9, 2), (2, 9), (1, 1)]:
        words = [LETTERS[:sizes[0]], LETTERS[:sizes[1]]]
        for room in range(sum(sizes) + 2):
            for side in ("left", "right"):
                tokenizer.enable_truncation(max_length=room + 3, direction=side)
                e = tokenizer.encode(*(" ".join(word) for word in words))
                kept = [[t for t, s in zip(e.tokens, e.sequence_ids) if s == which] for which in (0, 1)]
                rooms.append([*sizes, room, side, [k[0] if k else "" for k in kept], [len(k) for k in kept]])
    return rooms


if __name__ == "__main__":
    for file, content in (("folder_cases.json", folder_cases()), ("pair_rooms.json", pair_rooms())):
        text = json.dumps(content).replace('{"name"', '\n{"name"').replace("]], [", "]],\n[")
        (HERE / file).write_text(text + "\n", encoding="utf-8")
