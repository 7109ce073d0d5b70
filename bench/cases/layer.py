"""Multi-head self-attention with its projections: y = concat(heads) w_o^T + b_o, x and y [B, S, E], weights [E, E]."""

import numpy as np


class LayerCase:
    dtype = "f32"

    def __init__(self, words, seed=1):
        self.batch, self.seqlen, self.num_heads, self.head_dim = map(int, words)
        self.d_model = e = self.num_heads * self.head_dim
        random = np.random.default_rng(seed)
        self.x = random.standard_normal((self.batch, self.seqlen, e), np.float32)
        self.weights = {name: (random.standard_normal((e, e), np.float32) / np.sqrt(e)).astype(np.float32)
                        for name in ("w_q", "w_k", "w_v", "w_o")}
        self.biases = {name: random.standard_normal(e, np.float32) for name in ("b_q", "b_k", "b_v", "b_o")}

    def packed(self):
        """w [3E, E] and b [3E] of q, k, v one below the other."""
        return (np.concatenate([self.weights[n] for n in ("w_q", "w_k", "w_v")]),
                np.concatenate([self.biases[n] for n in ("b_q", "b_k", "b_v")]))

    def flops(self):
        e, tokens = self.d_model, self.batch * self.seqlen
        return 8.0 * tokens * e * e + 4.0 * tokens * self.seqlen * e

    def check(self, result):
        """All of the last sequence."""
        x = self.x[-1].astype(float)
        q, k, v = ((x @ self.weights["w_" + n].astype(float).T + self.biases["b_" + n])
                   .reshape(self.seqlen, self.num_heads, self.head_dim) for n in "qkv")
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.head_dim)
        probs = np.exp(scores - scores.max(-1, keepdims=True))
        probs /= probs.sum(-1, keepdims=True)
        heads = np.einsum("hij,jhd->ihd", probs, v).reshape(self.seqlen, self.d_model)
        exact = heads @ self.weights["w_o"].astype(float).T + self.biases["b_o"]
        error = float(np.abs(result["y"][-1] - exact).max())
        return error, not error <= 1e-4 * np.abs(exact).max()
