"""Sequences of unequal length: q, k, v packed as [total, heads, D]; for those who pad, as [B, S, heads, D]."""

import numpy as np

from cases.attention import AttentionCase


class VarlenCase:
    dtype = "f32"

    def __init__(self, words):
        self.num_heads, self.num_kv_heads, self.head_dim = map(int, words[:3])
        self.lengths = np.array(words[3].split(","), np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.batch, self.longest = len(self.lengths), int(self.lengths.max())
        self.padded = AttentionCase([self.batch, self.longest, self.longest, *words[:3]])
        self.padded.seqlens = self.lengths
        self.q, self.k, self.v = (self.pack(x) for x in (self.padded.q, self.padded.k, self.padded.v))

    def pack(self, padded):
        """[B, S, ..] -> [total, ..]"""
        return np.concatenate([padded[b, :n] for b, n in enumerate(self.lengths)])

    def flops(self):
        return 4.0 * self.num_heads * self.head_dim * float((self.lengths ** 2).sum())

    def check(self, result):
        """result["out"] is [total, H, D]; rows of padding are nobody's business."""
        worst, wrong, random = 0.0, False, np.random.default_rng(3)
        for b in range(self.batch):
            i, h = int(random.integers(self.lengths[b])), int(random.integers(self.num_heads))
            exact = self.padded.row_of(b, h, i)["out"]
            error = float(np.abs(result["out"][self.offsets[b] + i, h] - exact).max())
            worst = max(worst, error)
            wrong |= not error <= 1e-4 * np.abs(exact).max()
        return worst, wrong
