"""JAX on the CPU: jax.nn.dot_product_attention and what is around it, compiled by XLA."""

import os

# XLA takes as many threads as the process has CPUs, and bench/peers.py gives it just these.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from engines import Call, keeps_too_much


def compiled(function, *inputs):
    inputs = [jnp.asarray(x) for x in inputs]
    function = jax.jit(function).lower(*inputs).compile()
    return lambda: jax.block_until_ready(function(*inputs))


class Jax:
    name = "jax"

    def __init__(self, threads):
        self.threads = threads

    @staticmethod
    def options(case):
        options = {"is_causal": case.causal}
        if case.window is not None:
            options["local_window_size"] = (case.window, 0)
        return options

    def attention(self, case):
        if keeps_too_much(case):
            return None
        if "probs" in case.outputs:
            return self.with_probs(case)
        options, named = self.options(case), {}
        if case.bias is not None:
            named["bias"] = case.bias[None]
        if case.visible is not None:
            named["mask"] = case.visible[None, None]
        if case.seqlens is not None:
            named["key_value_seq_lengths"] = case.seqlens.astype(np.int32)
        if "lse" in case.outputs:
            options["return_residual"] = True

        def attend(q, k, v, *rest):
            return jax.nn.dot_product_attention(q, k, v, **dict(zip(named, rest)), **options)

        run = compiled(attend, case.q, case.k, case.v, *named.values())
        if "lse" in case.outputs:
            return Call(run, lambda r: {"out": np.asarray(r[0]), "lse": np.asarray(r[1]).transpose(0, 2, 1)})
        return Call(run, lambda r: {"out": np.asarray(r, np.float32)})

    decode = attention

    @staticmethod
    def with_probs(case):
        def attend(q, k, v):
            probs = jax.nn.softmax(jnp.einsum("bihd,bjhd->bhij", q * case.head_dim ** -0.5, k), -1)
            return jnp.einsum("bhij,bjhd->bihd", probs, v), probs

        return Call(compiled(attend, case.q, case.k, case.v),
                    lambda r: {"out": np.asarray(r[0]), "probs": np.asarray(r[1])})

    def backward(self, case):
        def attend(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, **self.options(case))

        qkv = [jnp.asarray(x) for x in (case.q, case.k, case.v)]
        _, pull = jax.jit(lambda *x: jax.vjp(attend, *x))(*qkv)  # what the forward keeps travels inside
        run = jax.jit(lambda pull, dout: pull(dout))
        dout = jnp.asarray(case.dout)
        return Call(lambda: jax.block_until_ready(run(pull, dout)),
                    lambda r: dict(zip(("dq", "dk", "dv"), map(np.asarray, r))))

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})

    def layer(self, case):
        w, b = case.packed()
        shape = case.batch, case.seqlen, 3, case.num_heads, case.head_dim

        def forward(x, w, b, w_o, b_o):
            qkv = (x @ w + b).reshape(shape)
            heads = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
            return heads.reshape(x.shape) @ w_o + b_o

        run = compiled(forward, case.x, np.ascontiguousarray(w.T), b, np.ascontiguousarray(case.weights["w_o"].T),
                       case.biases["b_o"])
        return Call(run, lambda y: {"y": np.asarray(y)})
