#!/usr/bin/env python3
"""Tiny random checkpoints of each family, and what PyTorch and transformers (eager attention) make of them.

    families.py OUT_FOLDER

Each folder holds config.json, model.safetensors as transformers writes them, and expected.safetensors:
ids, lengths, types [B, S]; hidden [L+1, B, S, E]; probs.0, probs.1 [B, H, S, S] of the heads that are left.

The committed ones: torch 2.15.0, transformers 5.24.0, safetensors 0.8.0.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import save_file
from safetensors.torch import load_file
from safetensors.torch import save_file as save_torch

B, S, VOCAB, PAD = 3, 9, 30, 1
LENGTHS = [9, 4, 1]
SIZES = dict(vocab_size=VOCAB, max_position_embeddings=16, pad_token_id=PAD, initializer_range=0.4)
BERT = dict(SIZES, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40)
# Heads removed from the layers of the pruned checkpoint: 3 are left in the first, 1 in the second.
PRUNED = {0: [1], 1: [0, 2, 3]}


def randomise(model):
    """Norms and biases too: a freshly made model has ones and zeros there."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name or "layer_norm" in name:
                p += 0.3 * torch.randn_like(p)


def prune(tensors):
    """Rows of query, key, value and columns of the output of the heads that are left."""
    for layer, gone in PRUNED.items():
        rows = [h * 8 + d for h in range(4) if h not in gone for d in range(8)]
        at = f"encoder.layer.{layer}.attention."
        for part in ["query", "key", "value"]:
            for kind in ["weight", "bias"]:
                tensors[f"{at}self.{part}.{kind}"] = tensors[f"{at}self.{part}.{kind}"][rows].contiguous()
        tensors[f"{at}output.dense.weight"] = tensors[f"{at}output.dense.weight"][:, rows].contiguous()


def silence(model):
    """The whole model with the same heads' outputs multiplied by 0: what the pruned one must equal."""
    with torch.no_grad():
        for layer, gone in PRUNED.items():
            for h in gone:
                model.encoder.layer[layer].attention.output.dense.weight[:, h * 8 : h * 8 + 8] = 0


def expected(model, ids, types):
    mask = torch.tensor([[i < n for i in range(S)] for n in LENGTHS], dtype=torch.int64)
    arguments = dict(input_ids=torch.tensor(ids), attention_mask=mask)
    if types is not None:
        arguments["token_type_ids"] = torch.tensor(types)
    with torch.no_grad():
        out = model(**arguments, output_hidden_states=True, output_attentions=True)
    return np.stack([x.numpy() for x in out.hidden_states]), [x.numpy() for x in out.attentions]


def make(folder, model, base, types=False, dtype=torch.float32, pruned=False):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    ids = rng.integers(2, VOCAB, (B, S))
    ids[0, 5] = PAD  # inside a text, where RoBERTa counts positions past it
    for b, length in enumerate(LENGTHS):
        ids[b, length:] = PAD
    kinds = rng.integers(0, 2, (B, S)) if types else None
    model.eval()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if pruned:
        tensors = load_file(folder / "model.safetensors")
        prune(tensors)
        save_torch(tensors, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        config["pruned_heads"] = {str(layer): gone for layer, gone in PRUNED.items()}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        silence(model)
    hidden, probs = expected(base.to(torch.float32), ids, kinds)
    if pruned:
        probs = [p[:, [h for h in range(4) if h not in PRUNED[layer]]] for layer, p in enumerate(probs)]
    tensors = {"ids": ids.astype(np.int64), "lengths": np.array(LENGTHS, np.int64), "hidden": hidden,
               "probs.0": np.ascontiguousarray(probs[0]), "probs.1": np.ascontiguousarray(probs[1])}
    if types:
        tensors["types"] = kinds.astype(np.int64)
    save_file(tensors, folder / "expected.safetensors")


def main():
    out = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    eager = dict(attn_implementation="eager")

    bert = hf.BertModel(hf.BertConfig(**BERT, hidden_act="gelu", **eager), add_pooling_layer=False)
    randomise(bert)
    make(out / "bert", bert, bert, types=True)

    half = hf.BertModel(hf.BertConfig(**BERT, hidden_act="gelu", **eager), add_pooling_layer=False)
    randomise(half)
    half.to(torch.bfloat16)
    make(out / "bert_bf16", half, half, types=True)

    pruned = hf.BertModel(hf.BertConfig(**BERT, hidden_act="relu", **eager), add_pooling_layer=False)
    randomise(pruned)
    make(out / "bert_pruned", pruned, pruned, pruned=True)

    roberta = hf.RobertaForMaskedLM(
        hf.RobertaConfig(**BERT, hidden_act="gelu_new", type_vocab_size=1, layer_norm_eps=1e-5, **eager))
    randomise(roberta)
    make(out / "roberta", roberta, roberta.roberta)

    distilbert = hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(**SIZES, dim=32, n_layers=2, n_heads=4, hidden_dim=40, activation="gelu", **eager))
    randomise(distilbert)
    make(out / "distilbert", distilbert, distilbert.distilbert)


main()
