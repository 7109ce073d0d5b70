#!/usr/bin/env python3
"""Writes what the Hugging Face `tokenizers` library makes of many texts, for the tests of src/text.

    make_tokenizer_goldens.py --model FOLDER --data FOLDER

FOLDER of --model holds MiniLM's tokenizer.json, FOLDER of --data holds multi30k/ and ud_english_pud/.
Made with Python 3.11 and tokenizers 0.23.3; needs nothing else.

Files, beside this one:
    tiny.json           a tokenizer.json with a vocabulary made by hand
    tiny_cases.json     groups of cases for it
    minilm_cases.json   groups of cases for MiniLM's tokenizer.json: the hostile texts
    digests.json        digests of encodings: every code point, and whole corpora
    classes.json        every code point's class, and digests of case and normal forms

A group is {"name", "patch", "cases"}: the patch is merged into the tokenizer.json (RFC 7396). A case is
[text, ids, tokens, offsets, word_ids, special_tokens_mask, type_ids] with offsets in code points.
"""

import argparse
import copy
import gzip
import json
import pathlib
import string

import tokenizers
from hostile_texts import HOSTILE
from tokenizers import Tokenizer, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).parent
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MASK64 = (1 << 64) - 1


class Digest:
    """FNV-1a (Fowler, Noll, Vo), 64 bits, over 32-bit words instead of bytes."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, word):
        self.value = ((self.value ^ word) * 0x100000001B3) & MASK64

    def add_text(self, text):
        self.add(len(text))
        for c in text:
            self.add(ord(c))

    def add_encoding(self, e):
        self.add(len(e.ids))
        for id_, (begin, end), word in zip(e.ids, e.offsets, e.word_ids):
            for value in (id_, begin, end, 0 if word is None else word + 1):
                self.add(value)

    def text(self):
        return f"{self.value:016x}"


def merge(target, patch):
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def load(document, patch):
    document = merge(document, patch)
    for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding"):
        document.setdefault(key, None)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def case(tokenizer, text, special=True):
    e = tokenizer.encode(text, add_special_tokens=special)
    return [text, e.ids, e.tokens, [list(o) for o in e.offsets], e.word_ids, e.special_tokens_mask, e.type_ids]


def group(name, document, patch, texts, special=True):
    tokenizer = load(document, patch)
    return {"name": name, "patch": patch, "add_special_tokens": special,
            "cases": [case(tokenizer, text, special) for text in texts]}


def write(name, value, one_line_each=None):
    """JSON with one line for each element of the lists named, so that changes can be read."""
    value = {"made_with": f"tokenizers {tokenizers.__version__}", **value}
    path = HERE / name
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace('],["', '],\n["')
                    .replace('{"name"', '\n{"name"') + "\n")
    print(f"{name}: {path.stat().st_size} bytes")


# ---------------------------------------------------------------------------------------------- tiny

def bert(lowercase, strip_accents=None, clean_text=True, handle_chinese_chars=True):
    return {"type": "BertNormalizer", "clean_text": clean_text, "handle_chinese_chars": handle_chinese_chars,
            "strip_accents": strip_accents, "lowercase": lowercase}


def tiny_document():
    whole = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "Hello", "world", "un", "play", "cafe", "caf\u00e9", "\u00c9", "the", "I",
             "\u30d0", "\u30cf", "\u30cf\u3099", "\u3067", "\u3066", "\u3066\u3099", "\u4e2d", "\u6587", "\u1112", "[X]", "\u0130"]
    whole += list("abcdefghijklmnopqrstuvwxyz0123456789.,!?'-[]#$")
    pieces = ["##ing", "##ed", "##able", "##\u0301", "##\u3099", "##\u1161", "##\u11ab", "##\u0307", "##\u00e9", "##e\u0301", "##\u6587"]
    pieces += ["##" + c for c in string.ascii_lowercase + string.digits]
    vocab = {token: i for i, token in enumerate(whole + pieces)}
    added = [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    step = lambda kind, id_, type_id: {kind: {"id": id_, "type_id": type_id}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": bert(True), "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [step("SpecialToken", "[CLS]", 0), step("Sequence", "A", 0), step("SpecialToken", "[SEP]", 0)],
            "pair": [step("SpecialToken", "[CLS]", 0), step("Sequence", "A", 0), step("SpecialToken", "[SEP]", 0),
                     step("Sequence", "B", 1), step("SpecialToken", "[SEP]", 1)],
            "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 20, "vocab": vocab},
    }


TINY_TEXTS = ["", "   ", "Hello, world!", "unplayed playing", "Caf\u00e9 cafe\u0301 CAF\u00c9", "\u30d0\u30cf\u3099\u3067\u3066\u3099", "\u30d0 \u30cf\u3099 \u3067 \u3066\u3099", "\u4e2d\u6587 a\u4e2db",
              "\ud55c \u1112\u1161\u11ab", "\u0130 I\u0307 \u0130x", "a\u0000b\u00adc\td", "x" * 20 + " " + "x" * 21, "\u2603 a\u2603", "[MASK]a[SEP] [X] [ mask ]", "don't - #1 $5.", "e\u0301\u0323 \u00e9\u0323"]
KANA_TEXTS = ["\u30d0", "\u30cf\u3099", "\u3067", "\u3066\u3099", "\u30d0\u3067", "a\u30d0 \u3066\u3099b"]
ADDED_TEXTS = ["a [X] b", "[X][X]", "a  [X]  [MASK] b", "\u00e9a \u00c9A xea", "hello Helloed ahello hello. hello_", "[MASK]hello", "a \n [X]\n\n[X] b", " q [X] q", "[X] \n", "\u0301hello\u0301"]


def added(document, *tokens):
    """The document's added tokens and these: (content, flags that are true)."""
    vocab = document["model"]["vocab"]
    result, next_id = copy.deepcopy(document["added_tokens"]), len(vocab)
    for content, *flags in tokens:
        id_ = vocab.get(content, next_id)
        next_id += id_ == next_id
        token = {"id": id_, "content": content}
        token |= {flag: flag in flags for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        result.append(token)
    return {"added_tokens": result}


def pair_case(tokenizer, a, b, max_length, side):
    if max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_length=max_length, direction=side)
    e = tokenizer.encode(a, b)
    return {"a": a, "b": b, "max_length": max_length, "side": side, "ids": e.ids, "word_ids": e.word_ids, "type_ids": e.type_ids, "sequence_ids": e.sequence_ids,
            "offsets": [list(o) for o in e.offsets]}


def write_tiny():
    document = tiny_document()
    (HERE / "tiny.json").write_text(json.dumps(document, ensure_ascii=True, indent=1) + "\n")
    groups = [group("as it is", document, {}, TINY_TEXTS), group("no special tokens", document, {}, TINY_TEXTS, special=False)]
    for lowercase in (True, False):
        for strip in (None, True, False):
            name = f"lowercase={lowercase}, strip_accents={strip}"
            groups.append(group(name, document, {"normalizer": bert(lowercase, strip)}, KANA_TEXTS + TINY_TEXTS[4:6] + TINY_TEXTS[9:10]))
    groups.append(group("no cleaning, no ideographs", document, {"normalizer": bert(True, None, False, False)}, TINY_TEXTS))
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        groups.append(group(form, document, {"normalizer": {"type": form}}, TINY_TEXTS))
    steps = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}]
    groups.append(group("sequence of normalizers", document, {"normalizer": {"type": "Sequence", "normalizers": steps}}, TINY_TEXTS))
    groups.append(group("no normalizer", document, {"normalizer": None}, TINY_TEXTS))
    for kind in ("Whitespace", "WhitespaceSplit", "Punctuation"):
        groups.append(group(kind, document, {"pre_tokenizer": {"type": kind}}, TINY_TEXTS))
    steps = [{"type": "WhitespaceSplit"}, {"type": "Punctuation"}]
    groups.append(group("sequence of pre-tokenizers", document, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}, TINY_TEXTS))
    groups.append(group("no pre-tokenizer", document, {"pre_tokenizer": None}, TINY_TEXTS))
    vocab = document["model"]["vocab"]
    processing = {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]], "cls": ["[CLS]", vocab["[CLS]"]]}
    groups.append(group("BertProcessing", document, {"post_processor": processing}, TINY_TEXTS[:3]))
    groups.append(group("no post-processor", document, {"post_processor": None}, TINY_TEXTS[:3]))
    tokens = [("[X]", "lstrip", "rstrip"), ("\n",), (" q", "lstrip"), ("\u00c9a", "normalized"), ("hello", "single_word")]
    groups.append(group("added tokens", document, added(document, *tokens), ADDED_TEXTS))
    tokens = [("[X]", "single_word", "normalized"), ("Hello", "single_word", "normalized", "rstrip")]
    groups.append(group("normalized added tokens", document, added(document, *tokens), ADDED_TEXTS))

    tokenizer = load(document, {})
    pairs = [pair_case(tokenizer, a, b, n, side) for a, b in (("a b c d e", "f g"), ("a b", "c d e f g"), ("a b c d", "e f g h"), ("", "hello"))
             for n in (None, 3, 4, 5, 6, 8, 20) for side in ("right", "left")]
    ids = [tokenizer.encode(t).ids for t in TINY_TEXTS]
    decoded = [[i, tokenizer.decode(i), tokenizer.decode(i, skip_special_tokens=False)] for i in ids]
    write("tiny_cases.json", {"groups": groups, "pairs": pairs, "decoded": decoded})


# ---------------------------------------------------------------------------------------------- MiniLM

MINILM_VARIANTS = {
    "cased": {"normalizer": {"lowercase": False}},
    "cased, accents stripped": {"normalizer": {"lowercase": False, "strip_accents": True}},
    "lowercase, accents kept": {"normalizer": {"strip_accents": False}},
    "ideographs not isolated": {"normalizer": {"handle_chinese_chars": False}},
    "not cleaned": {"normalizer": {"clean_text": False}},
}


def write_minilm(document):
    """All of the file as it is; of the variants, what differs from it."""
    groups = [group("as it is", document, {}, HOSTILE)]
    plain = {c[0]: c for c in groups[0]["cases"]}
    for name, patch in MINILM_VARIANTS.items():
        tokenizer = load(document, patch)
        cases = [c for c in (case(tokenizer, text) for text in HOSTILE) if c != plain[c[0]]]
        groups.append({"name": name, "patch": patch, "add_special_tokens": True, "cases": cases})
    write("minilm_cases.json", {"groups": groups})


def corpora(data):
    for path in sorted((data / "multi30k").glob("*.gz")):
        yield f"multi30k/{path.name}", gzip.open(path).read().decode().split("\n")[:-1]
    path = "ud_english_pud/en_pud-ud-test.conllu"
    lines = (data / path).read_text(encoding="utf-8").split("\n")
    yield path, [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]


def digest_of(tokenizer, texts):
    digest, num_tokens = Digest(), 0
    for begin in range(0, len(texts), 4096):
        for e in tokenizer.encode_batch(texts[begin:begin + 4096]):
            digest.add_encoding(e)
            num_tokens += len(e.ids)
    return {"num_texts": len(texts), "num_tokens": num_tokens, "digest": digest.text()}


def write_digests(document, data):
    """Corpora, and "a<c>b <c>" for every code point c, one digest for 0x2000 of them."""
    tokenizer = load(document, {})
    cased = load(document, MINILM_VARIANTS["cased"])
    digests = [{"path": path, "as_it_is": digest_of(tokenizer, texts), "cased": digest_of(cased, texts)} for path, texts in corpora(data)]
    for d in digests:
        print(d)
    blocks = []
    for first in range(0, 0x110000, 0x2000):
        texts = [f"a{chr(c)}b {chr(c)}" for c in range(first, first + 0x2000) if not 0xD800 <= c < 0xE000]
        blocks.append([digest_of(t, texts)["digest"] for t in (tokenizer, cased)])
    write("digests.json", {"corpora": digests, "code_points": blocks})


# ---------------------------------------------------------------------------------------------- Unicode

def ranges(predicate):
    """[first, last, first, last, ..] of the code points that satisfy it."""
    result = []
    for c in CODE_POINTS:
        if not predicate(chr(c)):
            continue
        if result and result[-1] == c - 1:
            result[-1] = c
        else:
            result += [c, c]
    return result


def write_classes():
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    isolate = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
    marks, lower = normalizers.StripAccents(), normalizers.Lowercase()
    bert_words, words, spaces = pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit()
    is_space = lambda c: len(spaces.pre_tokenize_str(f"a{c}b")) == 2
    classes = {
        "whitespace": ranges(is_space),
        "control": ranges(lambda c: c not in "\0\ufffd" and clean.normalize_str(f"a{c}b") == "ab"),  # removed for another reason
        "punctuation": ranges(lambda c: len(bert_words.pre_tokenize_str(f"a{c}b")) == 3),
        "nonspacing_mark": ranges(lambda c: strip.normalize_str(f"a{c}b") == "ab"),
        "combining_mark": ranges(lambda c: marks.normalize_str(f"a{c}b") == "ab"),
        "word": ranges(lambda c: len(words.pre_tokenize_str(f"a{c}b")) == 1),
        "cjk_ideograph": ranges(lambda c: isolate.normalize_str(c) != c),
    }
    # One digest for 0x2000 code points, of what each becomes beside marks that it may be reordered or joined with.
    forms = {"lower": lower, "nfd": normalizers.NFD(), "nfkd": normalizers.NFKD(), "nfc": normalizers.NFC(), "nfkc": normalizers.NFKC()}
    digests = {}
    for name, form in forms.items():
        digests[name] = []
        for first in range(0, 0x110000, 0x2000):
            digest = Digest()
            for c in range(first, first + 0x2000):
                if not 0xD800 <= c < 0xE000:
                    digest.add_text(form.normalize_str(f"a{chr(c)}\u0323\u0301"))
            digests[name].append(digest.text())
    write("classes.json", {"classes": classes, "digests": digests})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    options = parser.parse_args()
    document = json.loads((options.model / "tokenizer.json").read_text(encoding="utf-8"))
    write_tiny()
    write_minilm(document)
    write_digests(document, options.data)
    write_classes()


if __name__ == "__main__":
    main()
