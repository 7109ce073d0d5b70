"""This library, through bench/*_api.cpp."""

import ctypes

import numpy as np

from engines import Call
from machine import cpu_name

POINTER, INDEX = ctypes.c_void_p, ctypes.c_int64
EXTENTS = ["batch", "seqlen_q", "seqlen_kv", "num_heads", "num_kv_heads", "head_dim"]


class Attention(ctypes.Structure):
    """bench/attention_api.cpp"""
    _fields_ = ([(name, INDEX) for name in EXTENTS + ["causal", "window_left", "dtype", "heads_first", "bias_heads"]] +
                [(name, POINTER) for name in ("q", "k", "v", "seqlens", "offsets")] + [("num_sequences", INDEX)] +
                [(name, POINTER) for name in ("bias", "visible", "out", "probs", "lse", "row_max", "row_sum", "dout",
                                              "dq", "dk", "dv")])


class LayerParameters(ctypes.Structure):
    """bench/layer_api.cpp"""
    _fields_ = [(name, POINTER) for name in ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o", "b_o")]


def address(array):
    return None if array is None else array.ctypes.data


class Multihead:
    name = "multihead"
    heads_first = True  # [B, heads, S, D], as ONNX Runtime and OpenVINO are given it, and a cache

    def __init__(self, library, threads):
        self.library = ctypes.CDLL(str(library))
        self.library.multihead_bench_peak.restype = ctypes.c_double
        self.library.multihead_bench_target.restype = ctypes.c_char_p
        for name in ("threads", "layer", "encoder"):
            getattr(self.library, f"multihead_bench_{name}").restype = POINTER
        self.threads = POINTER(self.library.multihead_bench_threads(threads))

    def peak(self):
        """FMA rate of one thread, GFLOP/s, over some 50 microseconds."""
        return self.library.multihead_bench_peak()

    def machine(self):
        """The kind of CPU and the instruction set that runs: a row is compared with rows of the same machine only."""
        target = self.library.multihead_bench_target().decode()
        return f"{cpu_name()}, {'AVX-512' if target.startswith('AVX3') else target}"

    def reader(self, *arrays):
        """A call that reads arrays once, as fast as these threads can."""
        jobs = [(POINTER(address(x)), INDEX(x.nbytes // 4)) for x in arrays]

        def run():
            for pointer, count in jobs:
                self.library.multihead_bench_read(pointer, count, self.threads)

        return run

    @staticmethod
    def arguments(case, **arrays):
        """Field names and arrays -> struct; it holds on to the arrays, of which it has but addresses."""
        a = Attention(**{name: getattr(case, name) for name in EXTENTS}, causal=case.causal,
                      window_left=-1 if case.window is None else case.window,
                      dtype=("f32", "bf16", "f16").index(case.dtype),
                      bias_heads=0 if case.bias is None else len(case.bias))
        a.arrays = {n: getattr(case, n) for n in ("q", "k", "v", "seqlens", "bias", "visible")} | arrays
        for name, array in a.arrays.items():
            setattr(a, name, address(array))
        return a

    def forward(self, a):
        return lambda: self.library.multihead_bench_forward(ctypes.byref(a), self.threads)

    def laid_out(self, array):
        """A copy of [B, S, heads, D] as it lies best, and the same seen as [B, S, heads, D] again."""
        if not self.heads_first:
            return np.ascontiguousarray(array), array
        copy = np.ascontiguousarray(array.transpose(0, 2, 1, 3))
        return copy, copy.transpose(0, 2, 1, 3)

    def attention(self, case):
        rows = (case.batch, case.num_heads, case.seqlen_q)
        shapes = {"probs": (*rows, case.seqlen_kv), "lse": rows}
        results = {n: np.empty(shapes[n], np.float32) for n in case.outputs if n != "out"}
        out, seen = self.laid_out(np.empty_like(case.q))
        a = self.arguments(case, out=out, **results, **{n: self.laid_out(getattr(case, n))[0] for n in "qkv"})
        a.heads_first = self.heads_first
        return Call(self.forward(a), lambda _: results | {"out": seen})

    decode = attention

    def backward(self, case):
        rows = np.empty((2, case.batch, case.num_heads, case.seqlen_q), np.float32)
        inputs = {n: self.laid_out(getattr(case, n))[0] for n in ("q", "k", "v", "dout")}
        gradients = {"d" + n: self.laid_out(np.empty_like(getattr(case, n))) for n in "qkv"}
        a = self.arguments(case, out=np.empty_like(inputs["q"]), row_max=rows[0], row_sum=rows[1], **inputs,
                           **{n: copy for n, (copy, _) in gradients.items()})
        a.heads_first = self.heads_first
        self.forward(a)()
        return Call(lambda: self.library.multihead_bench_backward(ctypes.byref(a), self.threads),
                    lambda _: {n: seen for n, (_, seen) in gradients.items()})

    def varlen(self, case):
        out = np.empty_like(case.q)
        a = self.arguments(case.padded, q=case.q, k=case.k, v=case.v, seqlens=None, offsets=case.offsets, out=out)
        a.batch, a.seqlen_q, a.seqlen_kv, a.num_sequences = 1, len(case.q), len(case.q), case.batch
        return Call(self.forward(a), lambda _: {"out": out})

    def layer(self, case):
        parameters = LayerParameters(**{n: address(x) for n, x in (case.weights | case.biases).items()})
        layer = POINTER(self.library.multihead_bench_layer(INDEX(case.d_model), INDEX(case.num_heads),
                                                           ctypes.byref(parameters)))
        y = np.empty_like(case.x)
        arguments = layer, INDEX(case.batch), INDEX(case.seqlen), POINTER(address(case.x)), POINTER(address(y))
        return Call(lambda: self.library.multihead_bench_layer_forward(*arguments, self.threads), lambda _: {"y": y})

    def encode(self, case):
        encoder = POINTER(self.library.multihead_bench_encoder(str(case.folder).encode()))
        embeddings = np.empty((case.num_sentences, case.d_model), np.float32)
        jobs, first = [], 0
        for ids, lengths in case.batches:
            jobs.append((INDEX(ids.shape[0]), INDEX(ids.shape[1]), POINTER(address(ids)), POINTER(address(lengths)),
                         POINTER(address(embeddings[first:]))))
            first += len(ids)

        def run():
            for job in jobs:
                self.library.multihead_bench_encode(encoder, *job, self.threads)

        return Call(run, lambda _: {"embeddings": embeddings})


class TokensFirst(Multihead):
    """The same work on [B, S, heads, D], as projections leave it; not a peer."""
    name = "multihead-tokens-first"
    heads_first = False
    varlen = layer = encode = None
