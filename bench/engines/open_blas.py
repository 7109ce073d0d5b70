"""The products of NumPy's OpenBLAS around a softmax of NumPy's, head by head: what one writes without a library."""

import numpy as np
import threadpoolctl

from engines import Call, keeps_too_much


class OpenBlas:
    name = "openblas"

    def __init__(self, threads):
        threadpoolctl.threadpool_limits(threads, "blas")

    def attention(self, case):
        if case.dtype != "f32" or case.num_heads != case.num_kv_heads or keeps_too_much(case):
            return None
        q, k, v = (np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (case.q, case.k, case.v))
        mask, scale = case.dense_mask(), np.float32(case.head_dim ** -0.5)
        hidden = None if mask is None else np.where(mask, np.float32(0), np.float32(-np.inf))
        scores = np.empty((*q.shape[:3], k.shape[2]), np.float32)
        out, lse = np.empty_like(q), None

        def run():
            nonlocal lse
            np.matmul(q * scale, k.swapaxes(-1, -2), out=scores)
            for addend in (case.bias, hidden):
                if addend is not None:
                    np.add(scores, addend, out=scores)
            largest = scores.max(-1, keepdims=True)
            np.exp(np.subtract(scores, largest, out=scores), out=scores)
            total = scores.sum(-1, keepdims=True)
            np.divide(scores, total, out=scores)
            if "lse" in case.outputs:
                lse = largest + np.log(total)
            np.matmul(scores, v, out=out)

        return Call(run, lambda _: {"out": out.transpose(0, 2, 1, 3), "probs": scores,
                                    "lse": None if lse is None else lse[..., 0]})

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})

    def layer(self, case):
        w, b = case.packed()
        w, w_o, b_o = w.T, case.weights["w_o"].T, case.biases["b_o"]
        shape = case.batch, case.seqlen, 3, case.num_heads, case.head_dim
        scale = np.float32(case.head_dim ** -0.5)

        def run():
            qkv = (case.x @ w + b).reshape(shape).transpose(2, 0, 3, 1, 4)
            scores = (qkv[0] * scale) @ qkv[1].swapaxes(-1, -2)
            np.exp(np.subtract(scores, scores.max(-1, keepdims=True), out=scores), out=scores)
            np.divide(scores, scores.sum(-1, keepdims=True), out=scores)
            return (scores @ qkv[2]).transpose(0, 2, 1, 3).reshape(case.x.shape) @ w_o + b_o

        return Call(run, lambda y: {"y": y})
