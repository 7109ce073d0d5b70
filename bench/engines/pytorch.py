"""PyTorch: scaled_dot_product_attention (its fused CPU kernel), nn.MultiheadAttention (fast path), transformers."""

import logging
import warnings

import numpy as np
import torch
import torch.nn.functional as F

from engines import Call

warnings.filterwarnings("ignore", module="torch")  # prototypes, deprecations
logging.getLogger("torch").setLevel(logging.ERROR)


def tensor(array):
    """[B, S, H, D] as a view [B, H, S, D]; NumPy and PyTorch share the memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16).permute(0, 2, 1, 3)
    return torch.from_numpy(array).permute(0, 2, 1, 3)


def array(result):
    """The way back, to f32."""
    return result.detach().permute(0, 2, 1, 3).float().numpy()


def inference(function):
    """No gradients are kept."""
    def run():
        with torch.inference_mode():
            return function()
    return run


class Torch:
    name = "torch"

    def __init__(self, threads):
        torch.set_num_threads(threads)

    @staticmethod
    def mask(case):
        """None, bool or f32 mask of everything but a plain causal rule."""
        if case.bias is not None:
            return torch.from_numpy(case.bias)[None]
        if case.is_plain:
            return None
        return torch.from_numpy(case.dense_mask())

    def sdpa(self, case, q, k, v):
        mask = self.mask(case)
        causal, gqa = case.causal and mask is None, case.num_heads != case.num_kv_heads
        return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=gqa)

    def attention(self, case):
        q, k, v = map(tensor, (case.q, case.k, case.v))
        if "probs" in case.outputs:
            return None
        if "lse" in case.outputs:
            return Call(inference(lambda: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)),
                        lambda r: {"out": array(r[0]), "lse": r[1].numpy()})
        return Call(inference(self.sdpa(case, q, k, v)), lambda r: {"out": array(r)})

    def decode(self, case):
        q, k, v = (tensor(x).contiguous() for x in (case.q, case.k, case.v))
        return Call(inference(self.sdpa(case, q, k, v)), lambda r: {"out": array(r)})

    def backward(self, case):
        leaves = [tensor(x).requires_grad_() for x in (case.q, case.k, case.v)]
        out, dout = self.sdpa(case, *leaves)(), tensor(case.dout)
        return Call(lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True),
                    lambda r: dict(zip(("dq", "dk", "dv"), map(array, r))))

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(array(r))})

    def layer(self, case):
        layer = torch.nn.MultiheadAttention(case.d_model, case.num_heads, batch_first=True).eval()
        w, b = case.packed()
        state = {"in_proj_weight": w, "in_proj_bias": b, "out_proj.weight": case.weights["w_o"],
                 "out_proj.bias": case.biases["b_o"]}
        layer.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        x = torch.from_numpy(case.x)
        return Call(inference(lambda: layer(x, x, x, need_weights=False)[0]), lambda r: {"y": r.numpy()})

    def encode(self, case):
        model = sentence_model(case.folder)
        batches = [(torch.from_numpy(ids), torch.from_numpy(case.keep(ids, lengths))) for ids, lengths in case.batches]
        return Call(inference(lambda: [model(*batch) for batch in batches]),
                    lambda r: {"embeddings": torch.cat(r).numpy()})


class TorchPlain:
    """Two products and a softmax, for what the fused kernel does not return."""
    name = "torch-plain"

    def __init__(self, threads):
        pass

    def attention(self, case):
        if "probs" not in case.outputs or not case.is_plain or case.causal:
            return None
        q, k, v = map(tensor, (case.q, case.k, case.v))
        q = q * case.head_dim ** -0.5

        def run():
            probs = torch.softmax(q @ k.transpose(-1, -2), -1)
            return probs @ v, probs

        return Call(inference(run), lambda r: {"out": array(r[0]), "probs": r[1].numpy()})


class TorchJagged:
    """Nested tensors of the jagged layout."""
    name = "torch-jagged"

    def __init__(self, threads):
        pass

    def varlen(self, case):
        offsets = torch.from_numpy(case.offsets)
        q, k, v = (torch.nested.nested_tensor_from_jagged(torch.from_numpy(x), offsets).transpose(1, 2)
                   for x in (case.q, case.k, case.v))
        return Call(torch.no_grad()(lambda: F.scaled_dot_product_attention(q, k, v)),  # it knows no inference mode
                    lambda r: {"out": r.transpose(1, 2).values().numpy()})


class TorchLoop:
    """One call a sequence."""
    name = "torch-loop"

    def __init__(self, threads):
        pass

    def varlen(self, case):
        parts = [[tensor(x[None, begin:end]) for x in (case.q, case.k, case.v)]
                 for begin, end in zip(case.offsets, case.offsets[1:])]
        return Call(inference(lambda: [F.scaled_dot_product_attention(*part) for part in parts]),
                    lambda r: {"out": np.concatenate([array(x)[0] for x in r])})


class TorchFlex:
    """flex_attention, compiled: it leaves out hidden blocks. A minute of compilation a shape, so for windows alone."""
    name = "torch-flex"

    def __init__(self, threads):
        pass

    def attention(self, case):
        if case.window is None or not case.causal:
            return None
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        q, k, v = map(tensor, (case.q, case.k, case.v))

        def visible(b, h, i, j):
            return (j <= i) & (i - j <= case.window)

        blocks = create_block_mask(visible, None, None, case.seqlen_q, case.seqlen_kv, device="cpu")
        attend = torch.compile(flex_attention, dynamic=False)
        run = inference(lambda: attend(q, k, v, block_mask=blocks))
        run()  # compiles
        return Call(run, lambda r: {"out": array(r)})


class SentenceModel(torch.nn.Module):
    """token ids [B, S] and keep [B, S] -> embeddings [B, E]: mean over the tokens, length 1."""

    def __init__(self, folder):
        import transformers
        super().__init__()
        transformers.utils.logging.disable_progress_bar()
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def forward(self, token_ids, keep):
        hidden = self.model(input_ids=token_ids, attention_mask=keep).last_hidden_state
        weight = keep.to(hidden.dtype)[..., None]
        return F.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)


def sentence_model(folder):
    return SentenceModel(folder).eval()
