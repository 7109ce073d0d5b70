"""Writes torch_mha.json: torch.nn.MultiheadAttention on small inputs, with all gradients, in f64.

    python3 tests/golden/torch_mha.py > tests/golden/data/torch_mha.json

Inputs and parameters are multiples of 1/64, so that f32 holds them exactly. Beside each result stands the largest
error of torch's own f32 run, which is what the f32 layer is held to.
"""
import json
import sys

import torch
from torch import nn

B, SQ = 2, 4


def grid(generator, *shape):
    return torch.randint(-64, 65, shape, generator=generator).double() / 64


def run(case, dtype):
    generator = torch.Generator().manual_seed(case["seed"])
    layer = nn.MultiheadAttention(batch_first=True, dtype=dtype, **case["layer"])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(grid(generator, *parameter.shape))
    embed, skv = case["layer"]["embed_dim"], case["seqlen_kv"]
    q = grid(generator, B, SQ, embed).to(dtype).requires_grad_()
    if case["self"]:
        k = v = q
    else:
        k = grid(generator, B, skv, case["layer"].get("kdim", embed)).to(dtype).requires_grad_()
        v = grid(generator, B, skv, case["layer"].get("vdim", embed)).to(dtype).requires_grad_()
    dy = grid(generator, B, SQ, embed).to(dtype)
    masks = {}
    if case.get("causal"):
        masks["attn_mask"] = torch.triu(torch.ones(SQ, skv, dtype=torch.bool), 1)  # True = hidden
    if case.get("float_mask"):
        masks["attn_mask"] = grid(generator, SQ, skv).to(dtype)
    if case.get("per_head_mask"):
        heads = case["layer"]["num_heads"]
        masks["attn_mask"] = torch.rand(B * heads, SQ, skv, generator=generator) < 0.3
        masks["attn_mask"][:, :, 0] = False
    if case.get("key_padding"):
        masks["key_padding_mask"] = torch.arange(skv)[None] >= torch.tensor([[skv], [skv - 2]])
        if case.get("float_mask"):  # torch wants both of one type
            masks["key_padding_mask"] = torch.zeros(B, skv, dtype=dtype).masked_fill(masks["key_padding_mask"], -torch.inf)
    y, probs = layer(q, k, v, need_weights=True, average_attn_weights=False, **masks)
    y.backward(dy)
    inputs = {"x_q": q, "dy": dy} if case["self"] else {"x_q": q, "x_k": k, "x_v": v, "dy": dy}
    results = {"y": y, "probs": probs, "dx_q": q.grad}
    if not case["self"]:
        results |= {"dx_k": k.grad, "dx_v": v.grad}
    results |= {"d " + name: p.grad for name, p in layer.named_parameters()}
    return dict(layer.named_parameters()), inputs, masks, results


def tensor(x):
    values = x.detach().flatten().tolist()
    values = [v if isinstance(v, bool) or v == v and abs(v) != float("inf") else str(v) for v in values]
    return {"shape": list(x.shape), "values": values}


def golden(case):
    parameters, inputs, masks, results = run(case, torch.float64)
    single = run(case, torch.float32)[3]
    masks = {name: mask for name, mask in masks.items()}
    return {
        "name": case["name"],
        "num_heads": case["layer"]["num_heads"],
        "zero_attn": case["layer"].get("add_zero_attn", False),
        "parameters": {name: tensor(p) for name, p in parameters.items()},
        "inputs": {name: tensor(x) for name, x in inputs.items()},
        "masks": {name: tensor(x) for name, x in masks.items()},
        "results": {
            name: tensor(x) | {"f32_error": (x - single[name].double()).abs().max().item()}
            for name, x in results.items()
        },
    }


CASES = [
    {"name": "packed_causal", "seed": 1, "self": True, "seqlen_kv": SQ, "causal": True,
     "layer": {"embed_dim": 6, "num_heads": 3}},
    {"name": "key_and_value_widths", "seed": 2, "self": False, "seqlen_kv": 5,
     "layer": {"embed_dim": 8, "num_heads": 2, "kdim": 6, "vdim": 3}},
    {"name": "bias_kv_and_zero_attn", "seed": 3, "self": False, "seqlen_kv": 5, "per_head_mask": True,
     "layer": {"embed_dim": 6, "num_heads": 2, "add_bias_kv": True, "add_zero_attn": True}},
    {"name": "padding_and_float_mask", "seed": 4, "self": False, "seqlen_kv": 5, "key_padding": True,
     "float_mask": True, "layer": {"embed_dim": 6, "num_heads": 2, "bias": False}},
    {"name": "padding_and_bias_kv", "seed": 5, "self": False, "seqlen_kv": 5, "key_padding": True,
     "layer": {"embed_dim": 6, "num_heads": 2, "add_bias_kv": True, "kdim": 4}},
]

if __name__ == "__main__":
    document = {"made_by": "tests/golden/torch_mha.py", "torch": torch.__version__.split("+")[0],
                "python": sys.version.split()[0], "cases": [golden(case) for case in CASES]}
    json.dump(document, sys.stdout, separators=(",", ":"))
    print()
