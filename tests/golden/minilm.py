#!/usr/bin/env python3
"""What PyTorch and transformers (eager attention) make of 30 token sequences with all-MiniLM-L6-v2.

    minilm.py MODEL_FOLDER OUT.safetensors [--stride N]

Kept: all sentence embeddings, and every N-th value of the hidden states and of the probabilities, counted over real
tokens only. With --stride 1 the file is whole (about 400 MB); the test then compares every value:

    MULTIHEAD_MINILM_GOLDEN=OUT.safetensors test_golden --gtest_filter='MiniLM.*'

The committed file: stride 3989, torch 2.15.0, transformers 5.24.0, numpy 2.4.6.
"""

import argparse

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

TEXT = """The keeper of the lighthouse wrote down the weather every evening, even when nobody was going to read it.
"Why," asked his daughter, "do you count ships that never stop here?" He counted 17 of them in May, 23.5% more than
the year before; two were called Étoile and Čapek. 他的女儿每天早上煮茶，然后去看海。 A ship without a name is still a ship, he said,
and the sea does not ask. まちがいはだれにでもある。 The lamp turned once in twelve seconds 🌊🚢, its light reached 31 kilometres in
clear air, and the gulls ignored it. Вечером он снова зажёг лампу. When the engine failed in the storm of 1953 he
turned it by hand from dusk to dawn, counting aloud. Nobody believed him until the log books were found: every hour a
line, every line the same hand, the last word underlined twice."""

# Batches of sequences, so many tokens each: from 1 to 512, alone and beside shorter ones.
LENGTHS = [[1], [2], [3], [512], [4, 1, 2], [5, 9, 7, 5], [16, 15, 17], [31, 33, 32, 1], [63, 64, 65], [96, 8, 40],
           [127, 128], [200, 12], [256, 255]]
CLS, SEP = 101, 102


def sequences(tokenizer):
    """Token ids: pieces of TEXT from ever other places, with [CLS] and [SEP] where there is room."""
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    start = 0
    for lengths in LENGTHS:
        batch = []
        for length in lengths:
            inside = [ids[(start + i) % len(ids)] for i in range(max(length - 2, 0))]
            batch.append(([CLS] + inside + [SEP])[:length] if length > 1 else [ids[start % len(ids)]])
            start += 37
        yield batch


def real_values(array, lengths, token_axes):
    """The values of array[layer, b, ..] whose token indices are below lengths[b], in row-major order of (layer, b, ..)."""
    parts = []
    for of_layer in array:
        for b, length in enumerate(lengths):
            index = [slice(None)] * (of_layer.ndim - 1)
            for axis in token_axes:
                index[axis] = slice(0, length)
            parts.append(of_layer[b][tuple(index)].reshape(-1))
    return np.concatenate(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--stride", type=int, default=3989)
    arguments = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model = transformers.AutoModel.from_pretrained(arguments.model, attn_implementation="eager", dtype=torch.float32)
    model.eval()

    tensors, embeddings = {}, []
    for number, batch in enumerate(sequences(tokenizer)):
        lengths = [len(ids) for ids in batch]
        ids = np.zeros((len(batch), max(lengths)), np.int64)
        for b, row in enumerate(batch):
            ids[b, : len(row)] = row
        mask = torch.tensor([[i < n for i in range(max(lengths))] for n in lengths], dtype=torch.int64)
        with torch.no_grad():
            out = model(input_ids=torch.tensor(ids), attention_mask=mask, output_hidden_states=True,
                        output_attentions=True)
        hidden = np.stack([x.numpy() for x in out.hidden_states])  # [L+1, B, S, E]
        probs = np.stack([x.numpy() for x in out.attentions])  # [L, B, H, S, S]
        kept = mask[:, :, None].float()
        mean = (out.last_hidden_state * kept).sum(1) / kept.sum(1)
        embeddings.append(torch.nn.functional.normalize(mean, dim=1).numpy())
        tensors[f"{number}.ids"] = ids
        tensors[f"{number}.lengths"] = np.array(lengths, np.int64)
        tensors[f"{number}.hidden"] = real_values(hidden, lengths, [0])[:: arguments.stride].copy()
        tensors[f"{number}.probs"] = real_values(probs, lengths, [1, 2])[:: arguments.stride].copy()
    tensors["embeddings"] = np.concatenate(embeddings)
    save_file(tensors, arguments.out, {"stride": str(arguments.stride), "batches": str(len(LENGTHS)),
                                       "torch": torch.__version__, "transformers": transformers.__version__})


main()
