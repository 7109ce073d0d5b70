"""Scaled-dot-product attention: q [B, Sq, H, D], k and v [B, Skv, Hkv, D], and the options that masks.txt names."""

import numpy as np

SAMPLED_ROWS = 8
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}  # of the largest value: what tells a fault from rounding


def numpy_dtype(name):
    if name == "bf16":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f32": np.float32, "f16": np.float16}[name])


class AttentionCase:
    def __init__(self, words, seed=1):
        self.batch, self.seqlen_q, self.seqlen_kv = map(int, words[:3])
        self.num_heads, self.num_kv_heads, self.head_dim = map(int, words[3:6])
        options = dict(word.partition("=")[::2] for word in words[6:])
        self.causal = "causal" in options  # bottom right; equal to top left where Sq = Skv, which is all that is timed
        self.window = int(options["window"]) if "window" in options else None
        self.dtype = next((name for name in ("f16", "bf16") if name in options), "f32")
        self.outputs = ["out"] + [name for name in ("probs", "lse") if name in options]
        self.random = random = np.random.default_rng(seed)

        def tensor(tokens, heads):
            values = random.standard_normal((self.batch, tokens, heads, self.head_dim), np.float32)
            return values.astype(numpy_dtype(self.dtype))

        self.q, self.dout = tensor(self.seqlen_q, self.num_heads), tensor(self.seqlen_q, self.num_heads)
        self.k, self.v = tensor(self.seqlen_kv, self.num_kv_heads), tensor(self.seqlen_kv, self.num_kv_heads)
        self.seqlens = self.bias = self.visible = None
        if "padding" in options:  # from half to all of the keys
            self.seqlens = np.linspace(self.seqlen_kv / 2, self.seqlen_kv, self.batch).astype(np.int64)
        if "bias" in options:
            heads = self.num_heads if options["bias"] == "heads" else 1
            self.bias = random.standard_normal((heads, self.seqlen_q, self.seqlen_kv), np.float32)
        if "visible" in options:
            self.visible = random.random((self.seqlen_q, self.seqlen_kv)) < 0.8

    @property
    def is_plain(self):
        """Nothing but a causal mask at most."""
        return self.window is None and self.seqlens is None and self.bias is None and self.visible is None

    @property
    def heads_per_kv(self):
        return self.num_heads // self.num_kv_heads

    def band(self):
        """bool [Sq, Skv]: what the causal rule and the window leave."""
        distance = np.arange(self.seqlen_q)[:, None] + (self.seqlen_kv - self.seqlen_q) - np.arange(self.seqlen_kv)
        band = np.ones(distance.shape, bool)
        if self.causal:
            band &= distance >= 0
        if self.window is not None:
            band &= distance <= self.window
        return band

    def dense_mask(self):
        """bool [1 or B, 1, 1 or Sq, Skv] for engines that know no other masks than dense ones; None = all visible."""
        mask = None
        if self.causal or self.window is not None:
            mask = self.band()[None, None]
        if self.visible is not None:
            mask = self.visible[None, None] if mask is None else mask & self.visible
        if self.seqlens is not None:
            keep = (np.arange(self.seqlen_kv) < self.seqlens[:, None])[:, None, None]
            mask = keep if mask is None else mask & keep
        return None if mask is None else np.ascontiguousarray(mask)

    def flops(self, products=2):
        """Of the pairs that masks by rule leave. A dense mask saves nothing."""
        pairs = self.band().sum(dtype=np.int64) if self.causal or self.window is not None else \
            self.seqlen_q * self.seqlen_kv
        sequences = self.batch if self.seqlens is None else self.seqlens.sum() / self.seqlen_kv
        return 2.0 * products * sequences * self.num_heads * float(pairs) * self.head_dim

    def bytes_read(self):
        return self.k.nbytes + self.v.nbytes

    def row_of(self, b, h, i):
        """probs [Skv], lse and out [D] of one query in double precision."""
        g = h // self.heads_per_kv
        scores = self.k[b, :, g].astype(float) @ self.q[b, i, h].astype(float) / np.sqrt(self.head_dim)
        if self.bias is not None:
            scores += self.bias[h % len(self.bias), i]
        j = np.arange(self.seqlen_kv)
        distance = i + self.seqlen_kv - self.seqlen_q - j
        hidden = (distance < 0) & self.causal
        hidden |= distance > (self.seqlen_kv if self.window is None else self.window)
        if self.seqlens is not None:
            hidden |= j >= self.seqlens[b]
        if self.visible is not None:
            hidden |= ~self.visible[i]
        scores[hidden] = -np.inf
        largest = scores.max()
        probs = np.exp(scores - largest)
        total = probs.sum()
        out = probs @ self.v[b, :, g].astype(float) / total
        return {"out": out, "probs": probs / total, "lse": largest + np.log(total)}

    def check(self, result):
        """Largest difference to double precision on some rows, and whether it is more than rounding."""
        random, worst, wrong = np.random.default_rng(2), 0.0, False
        for _ in range(SAMPLED_ROWS):
            b, i, h = (int(random.integers(n)) for n in (self.batch, self.seqlen_q, self.num_heads))
            exact = self.row_of(b, h, i)
            for name in self.outputs:
                got = result[name][b, i, h] if name == "out" else result[name][b, h, i]
                error = float(np.abs(np.asarray(got, float) - exact[name]).max())
                worst = max(worst, error)
                wrong |= not error <= TOLERANCE[self.dtype] * max(1e-3, np.abs(exact[name]).max())
        return worst, wrong

    def gradients_of(self, b, g):
        """dq [Sq, H/Hkv, D], dk and dv [Skv, D] of one kv head and its queries in double precision."""
        k, v = self.k[b, :, g].astype(float), self.v[b, :, g].astype(float)
        dq, dk, dv = [], np.zeros_like(k), np.zeros_like(v)
        band, scale = self.band(), 1 / np.sqrt(self.head_dim)
        for h in range(g * self.heads_per_kv, (g + 1) * self.heads_per_kv):
            q, dout = self.q[b, :, h].astype(float), self.dout[b, :, h].astype(float)
            scores = np.where(band, q @ k.T * scale, -np.inf)
            probs = np.exp(scores - scores.max(-1, keepdims=True))
            probs /= probs.sum(-1, keepdims=True)
            dprobs = dout @ v.T
            dscores = probs * (dprobs - (probs * dprobs).sum(-1, keepdims=True)) * scale
            dq.append(dscores @ k)
            dk += dscores.T @ q
            dv += probs.T @ dout
        return {"dq": np.stack(dq, 1), "dk": dk, "dv": dv}

    def check_gradients(self, result):
        """As check, for dq, dk, dv of the last kv head of the last sequence."""
        b, g = self.batch - 1, self.num_kv_heads - 1
        worst, wrong = 0.0, False
        for name, exact in self.gradients_of(b, g).items():
            heads = slice(g * self.heads_per_kv, None) if name == "dq" else g
            error = float(np.abs(np.asarray(result[name][b, :, heads], float) - exact).max())
            worst = max(worst, error)
            wrong |= not error <= TOLERANCE[self.dtype] * np.abs(exact).max()
        return worst, wrong
