"""ONNX Runtime: Attention of opset 23, and its own operators MultiHeadAttention, GroupQueryAttention and Attention."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from engines import Call, keeps_too_much

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
         "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
OWN = "com.microsoft"


def heads_first(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3))


def heads_joined(x):
    """[B, S, H, D] -> [B, S, H*D]"""
    return x.reshape(*x.shape[:2], -1)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, **attributes)


class Runtime:
    def __init__(self, threads):
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads

    def session(self, model):
        return onnxruntime.InferenceSession(model, self.options, ["CPUExecutionProvider"])

    def session_of(self, nodes, inputs, outputs, constants=()):
        """Inputs and constants are arrays by name; `outputs` maps names to element types, None standing for f32."""
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "bench", [info(n, TYPES[x.dtype.name], x.shape) for n, x in inputs.items()],
                                  [info(n, kind or TensorProto.FLOAT, None) for n, kind in outputs.items()],
                                  [helper.make_tensor(n, TYPES[x.dtype.name], x.shape, x.tobytes(), raw=True)
                                   for n, x in dict(constants).items()])
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(OWN, 1)]
        return self.session(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())

    def graph(self, nodes, inputs, outputs, constants=()):
        session = self.session_of(nodes, inputs, outputs, constants)
        return lambda: session.run(list(outputs), inputs)


class OnnxRuntime(Runtime):
    """Attention of opset 23 on [B, H, S, D]."""
    name = "onnxruntime"

    def attention(self, case):
        if "lse" in case.outputs or case.dtype == "bf16":
            return None
        if keeps_too_much(case) and (case.causal or not case.is_plain):
            return None  # ten seconds a call: without its fused kernel
        inputs = dict(zip("qkv", map(heads_first, (case.q, case.k, case.v))))
        mask = case.bias[None] if case.bias is not None else None if case.is_plain else case.dense_mask()
        if mask is not None:
            shape = *mask.shape[:2], case.seqlen_q, case.seqlen_kv  # it takes no mask without an axis of queries
            inputs["mask"] = np.ascontiguousarray(np.broadcast_to(mask, shape))
        names, outputs, attributes = list(inputs), {"out": TYPES[case.q.dtype.name]}, {}
        if "probs" in case.outputs:
            names += [""] * (6 - len(names))
            outputs["probs"], attributes["qk_matmul_output_mode"] = None, 3
        attention = node("Attention", names, ["out", "", "", "probs"][:4 if "probs" in outputs else 1],
                         is_causal=int(case.causal and mask is None), **attributes)
        return Call(self.graph([attention], inputs, outputs),
                    lambda r: dict(zip(outputs, [r[0].transpose(0, 2, 1, 3), *r[1:]])))

    decode = attention

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})

    def layer(self, case):
        """Four MatMuls around its MultiHeadAttention."""
        constants = {n: np.ascontiguousarray(w.T) for n, w in case.weights.items()} | case.biases
        nodes = []
        for n in "qkv":
            nodes += [node("MatMul", ["x", f"w_{n}"], [f"x_{n}"]), node("Add", [f"x_{n}", f"b_{n}"], [n])]
        nodes += [node("MultiHeadAttention", list("qkv"), ["heads"], domain=OWN, num_heads=case.num_heads),
                  node("MatMul", ["heads", "w_o"], ["x_o"]), node("Add", ["x_o", "b_o"], ["y"])]
        return Call(self.graph(nodes, {"x": case.x}, {"y": None}, constants), lambda r: {"y": r[0]})

    def encode(self, case):
        session = self.session(str(case.onnx_file()))
        batches = [{"token_ids": ids, "keep": case.keep(ids, lengths)} for ids, lengths in case.batches]
        return Call(lambda: [session.run(None, batch)[0] for batch in batches],
                    lambda r: {"embeddings": np.concatenate(r)})


class OnnxRuntimeContrib(Runtime):
    """MultiHeadAttention on [B, S, H*D]; as a layer, Attention with one packed product for q, k and v."""
    name = "onnxruntime-mha"

    def attention(self, case):
        plain = case.num_heads == case.num_kv_heads and case.outputs == ["out"] and case.dtype == "f32"
        if not plain or case.window is not None or (case.causal and keeps_too_much(case)):
            return None
        inputs = {n: heads_joined(getattr(case, n)) for n in "qkv"}
        names = list("qkv")
        if case.seqlens is not None:
            inputs["keep"] = (np.arange(case.seqlen_kv) < case.seqlens[:, None]).astype(np.int32)
            names += ["", "keep"]
        if case.bias is not None or case.visible is not None:
            bias = case.bias if case.bias is not None else np.where(case.visible, 0, -1e30).astype(np.float32)[None]
            inputs["bias"] = bias[None]
            names += [""] * (5 - len(names)) + ["bias"]
        attention = node("MultiHeadAttention", names, ["out"], domain=OWN, num_heads=case.num_heads,
                         unidirectional=int(case.causal))
        return Call(self.graph([attention], inputs, {"out": None}), lambda r: {"out": r[0].reshape(case.q.shape)})

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})

    def layer(self, case):
        w, b = case.packed()
        constants = {"w": np.ascontiguousarray(w.T), "b": b, "w_o": np.ascontiguousarray(case.weights["w_o"].T),
                     "b_o": case.biases["b_o"]}
        nodes = [node("Attention", ["x", "w", "b"], ["heads"], domain=OWN, num_heads=case.num_heads),
                 node("MatMul", ["heads", "w_o"], ["x_o"]), node("Add", ["x_o", "b_o"], ["y"])]
        return Call(self.graph(nodes, {"x": case.x}, {"y": None}, constants), lambda r: {"y": r[0]})


class OnnxRuntimeGrouped(Runtime):
    """GroupQueryAttention, what its language models run on: causal, windows, and a cache that is kept in place."""
    name = "onnxruntime-gqa"

    def attention(self, case):
        simple = case.seqlens is None and case.bias is None and case.visible is None and case.outputs == ["out"]
        if not simple or not case.causal or case.dtype == "bf16":
            return None
        inputs = {n: heads_joined(getattr(case, n)) for n in "qkv"}
        inputs["last"] = np.full(case.batch, case.seqlen_kv - 1, np.int32)
        inputs["total"] = np.array(case.seqlen_kv, np.int32)
        attention = node("GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"], ["out", "k_cache", "v_cache"],
                         domain=OWN, num_heads=case.num_heads, kv_num_heads=case.num_kv_heads,
                         local_window_size=-1 if case.window is None else case.window + 1)
        return Call(self.graph([attention], inputs, {"out": None}), lambda r: {"out": r[0].reshape(case.q.shape)})

    def decode(self, case):
        """The newest key comes with the query; the others lie in a cache that is input and output at once."""
        if case.dtype == "bf16":
            return None
        element = TYPES[case.q.dtype.name]
        inputs = {"q": heads_joined(case.q), "k": heads_joined(case.k[:, -1:]), "v": heads_joined(case.v[:, -1:]),
                  "k_past": heads_first(case.k), "v_past": heads_first(case.v),
                  "last": np.full(case.batch, case.seqlen_kv - 1, np.int32),
                  "total": np.array(case.seqlen_kv, np.int32)}
        outputs = ["out", "k_now", "v_now"]
        attention = node("GroupQueryAttention", list(inputs), outputs, domain=OWN, num_heads=case.num_heads,
                         kv_num_heads=case.num_kv_heads)
        session = self.session_of([attention], inputs, dict.fromkeys(outputs, element))
        binding, value = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy
        kept = {n: value(x) for n, x in inputs.items()} | {"out": value(np.empty_like(inputs["q"]))}
        kept |= {"k_now": kept["k_past"], "v_now": kept["v_past"]}
        for n in inputs:
            binding.bind_ortvalue_input(n, kept[n])
        for n in outputs:
            binding.bind_ortvalue_output(n, kept[n])
        return Call(lambda: session.run_with_iobinding(binding),
                    lambda _: {"out": kept["out"].numpy().reshape(case.q.shape)})
