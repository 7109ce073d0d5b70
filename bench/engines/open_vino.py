"""OpenVINO on the CPU: its scaled_dot_product_attention, compiled with f32 arithmetic forced."""

import numpy as np
import openvino
from openvino import opset13 as op

from engines import Call, keeps_too_much


def heads_first(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3))


def constant(x):
    return op.constant(np.ascontiguousarray(x))


class OpenVino:
    name = "openvino"

    def __init__(self, threads):
        self.core = openvino.Core()
        self.settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                         "ENABLE_CPU_PINNING": False}

    def model(self, inputs, build):
        """A run of build(*parameters) -> nodes on NumPy inputs; its result is a list of arrays."""
        parameters = [op.parameter(x.shape, x.dtype) for x in inputs]
        model = openvino.Model(build(*parameters), parameters, "bench")
        compiled = self.core.compile_model(model, "CPU", self.settings)
        request = compiled.create_infer_request()
        for i, x in enumerate(inputs):
            request.set_input_tensor(i, openvino.Tensor(x, shared_memory=True))
        outputs = [request.get_output_tensor(i) for i in range(len(compiled.outputs))]

        def run():
            request.infer()
            return [x.data for x in outputs]

        run.inputs = inputs  # shared, so kept
        return run

    def attention(self, case):
        if case.dtype != "f32" or "lse" in case.outputs:
            return None
        if keeps_too_much(case) and (case.causal or not case.is_plain):
            return None  # a minute a call: it then takes all scores to memory
        inputs = [heads_first(x) for x in (case.q, case.k, case.v)]
        grouped = case.num_heads != case.num_kv_heads
        if grouped:  # [B, Hkv, H/Hkv, S, D] against [B, Hkv, 1, S, D]
            inputs[0] = inputs[0].reshape(case.batch, case.num_kv_heads, case.heads_per_kv, *inputs[0].shape[2:])
            inputs[1:] = [x[:, :, None] for x in inputs[1:]]
        if "probs" in case.outputs:
            return Call(self.model(inputs, lambda *x: self.with_probs(case, *x)),
                        lambda r: {"out": r[0].transpose(0, 2, 1, 3), "probs": r[1]})
        mask = case.bias[None] if case.bias is not None else None if case.is_plain else case.dense_mask()
        if mask is not None:
            inputs.append(mask)
        causal = case.causal and mask is None
        run = self.model(inputs, lambda *x: [op.scaled_dot_product_attention(*x, causal=causal)])
        shape = case.batch, case.num_heads, case.seqlen_q, case.head_dim
        return Call(run, lambda r: {"out": r[0].reshape(shape).transpose(0, 2, 1, 3)})

    decode = attention

    @staticmethod
    def with_probs(case, q, k, v):
        scores = op.multiply(op.matmul(q, k, False, True), constant(np.float32(case.head_dim ** -0.5)))
        probs = op.softmax(scores, 3)
        return [op.matmul(probs, v, False, False), probs]

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})

    def layer(self, case):
        shape = constant(np.array([case.batch, case.seqlen, case.num_heads, case.head_dim]))
        order = constant(np.array([0, 2, 1, 3]))

        def project(x, name):
            return op.add(op.matmul(x, constant(case.weights["w_" + name]), False, True),
                          constant(case.biases["b_" + name]))

        def build(x):
            q, k, v = (op.transpose(op.reshape(project(x, n), shape, False), order) for n in "qkv")
            heads = op.transpose(op.scaled_dot_product_attention(q, k, v), order)
            return [project(op.reshape(heads, constant(np.array(case.x.shape)), False), "o")]

        return Call(self.model([case.x], build), lambda r: {"y": r[0]})

    def encode(self, case):
        compiled = self.core.compile_model(str(case.onnx_file()), "CPU", self.settings)
        request = compiled.create_infer_request()
        batches = [[openvino.Tensor(ids), openvino.Tensor(case.keep(ids, lengths))] for ids, lengths in case.batches]

        def run():
            return [request.infer(batch, share_inputs=True)[0].copy() for batch in batches]

        return Call(run, lambda r: {"embeddings": np.concatenate(r)})
