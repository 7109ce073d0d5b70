"""oneDNN's graph API (ctypes; the shared library of its PyPI package): the pattern of attention as one partition."""

import ctypes
import os
import pathlib
import sys

import numpy as np

from engines import Call, keeps_too_much

LIB = pathlib.Path(sys.prefix) / "lib"
# The package is built for SYCL, over an OpenCL driver for the CPU; all of it lies where no loader looks.
NEEDED = ["libtbb.so.12", "libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so", "libOpenCL.so.1", "libsycl.so.9"]
# dnnl_common_types.h, dnnl_graph_types.h
F32, CPU, IN_ORDER, STRIDED, VARIABLE, FUSION = 3, 1, 1, 2, 1, 1
ADD, MATMUL, MULTIPLY, SOFTMAX = 2, 39, 46, 64
AXIS, TRANSPOSE_B = 0x30, 0x66
Dims = ctypes.c_int64 * 12


class LogicalTensor(ctypes.Structure):
    _fields_ = [("id", ctypes.c_size_t), ("ndims", ctypes.c_int), ("dims", Dims), ("data_type", ctypes.c_int),
                ("property", ctypes.c_int), ("layout_type", ctypes.c_int), ("strides", Dims)]


def load(path):
    os.environ.setdefault("OCL_ICD_FILENAMES", str(LIB / "libintelocl.so"))
    for name in NEEDED:
        if (LIB / name).exists():
            ctypes.CDLL(str(LIB / name), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))



class OneDnn:
    name = "onednn"

    def __init__(self, threads):
        self.library = load(LIB / "libdnnl.so.3")
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dnnl_engine_create", ctypes.byref(self.engine), CPU, ctypes.c_size_t(0))
        self.call("dnnl_stream_create", ctypes.byref(self.stream), self.engine, IN_ORDER)

    def call(self, function, *arguments):
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} gave status {status}")

    def tensor(self, number, shape):
        """A contiguous one."""
        logical, strides = LogicalTensor(), np.cumprod([1, *shape[:0:-1]])[::-1]
        self.call("dnnl_graph_logical_tensor_init_with_strides", ctypes.byref(logical), ctypes.c_size_t(number), F32,
                  len(shape), Dims(*shape), Dims(*map(int, strides)), VARIABLE)
        return logical

    def add_op(self, graph, number, kind, inputs, output, **attributes):
        op = ctypes.c_void_p()
        self.call("dnnl_graph_op_create", ctypes.byref(op), ctypes.c_size_t(number), kind, b"op%d" % number)
        for logical in inputs:
            self.call("dnnl_graph_op_add_input", op, ctypes.byref(logical))
        self.call("dnnl_graph_op_add_output", op, ctypes.byref(output))
        if "axis" in attributes:
            value = ctypes.c_int64(attributes["axis"])
            self.call("dnnl_graph_op_set_attr_s64", op, AXIS, ctypes.byref(value), ctypes.c_size_t(1))
        if "transpose_b" in attributes:
            value = ctypes.c_uint8(attributes["transpose_b"])
            self.call("dnnl_graph_op_set_attr_bool", op, TRANSPOSE_B, ctypes.byref(value), ctypes.c_size_t(1))
        self.call("dnnl_graph_add_op", graph, op)

    def compiled(self, graph, inputs, output):
        """The partition that holds the whole graph."""
        self.call("dnnl_graph_graph_finalize", graph)
        self.call("dnnl_graph_graph_filter", graph, FUSION)
        count = ctypes.c_size_t()
        self.call("dnnl_graph_graph_get_partition_num", graph, ctypes.byref(count))
        if count.value != 1:
            raise RuntimeError(f"attention became {count.value} partitions, not one")
        partition, compiled = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dnnl_graph_graph_get_partitions", graph, count, ctypes.byref(partition))
        self.call("dnnl_graph_compiled_partition_create", ctypes.byref(compiled), partition)
        pointers = (ctypes.POINTER(LogicalTensor) * len(inputs))(*map(ctypes.pointer, inputs))
        out = (ctypes.POINTER(LogicalTensor) * 1)(ctypes.pointer(output))
        self.call("dnnl_graph_partition_compile", partition, compiled, ctypes.c_size_t(len(inputs)), pointers,
                  ctypes.c_size_t(1), out, self.engine)
        return compiled

    def memory(self, logical, array):
        result = ctypes.c_void_p()
        self.call("dnnl_graph_tensor_create", ctypes.byref(result), ctypes.byref(logical), self.engine,
                  ctypes.c_void_p(array.ctypes.data))
        return result

    def attention(self, case):
        if case.dtype != "f32" or case.outputs != ["out"] or case.num_heads != case.num_kv_heads or \
                keeps_too_much(case):
            return None
        arrays = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (case.q, case.k, case.v)]
        arrays.append(np.full((1, 1, 1, 1), case.head_dim ** -0.5, np.float32))
        mask = case.dense_mask()
        if case.bias is not None:
            arrays.append(case.bias[None])
        elif mask is not None:
            arrays.append(np.where(mask, np.float32(0), np.float32(-1e30)))
        out = np.empty_like(arrays[0])
        scores_shape = (case.batch, case.num_heads, case.seqlen_q, case.seqlen_kv)

        tensors = [self.tensor(i, x.shape) for i, x in enumerate(arrays)]
        q, k, v, scale, *addend = tensors
        middle = [self.tensor(10 + i, scores_shape) for i in range(4)]
        y = self.tensor(20, out.shape)
        graph = ctypes.c_void_p()
        self.call("dnnl_graph_graph_create", ctypes.byref(graph), CPU)
        self.add_op(graph, 0, MATMUL, [q, k], middle[0], transpose_b=True)
        self.add_op(graph, 1, MULTIPLY, [middle[0], scale], middle[1])
        if addend:
            self.add_op(graph, 2, ADD, [middle[1], *addend], middle[2])
        self.add_op(graph, 3, SOFTMAX, [middle[2 if addend else 1]], middle[3], axis=-1)
        self.add_op(graph, 4, MATMUL, [middle[3], v], y)
        inputs = [q, k, scale, *addend, v]
        compiled = self.compiled(graph, inputs, y)
        array_of = dict(enumerate(arrays))
        given = (ctypes.c_void_p * len(inputs))(*[self.memory(x, array_of[x.id]).value for x in inputs])
        result = (ctypes.c_void_p * 1)(self.memory(y, out).value)
        execute, wait = self.library.dnnl_graph_compiled_partition_execute, self.library.dnnl_stream_wait
        counts = ctypes.c_size_t(len(inputs)), ctypes.c_size_t(1)

        def run():
            if execute(compiled, self.stream, counts[0], given, counts[1], result) or wait(self.stream):
                raise RuntimeError("dnnl_graph_compiled_partition_execute failed")

        return Call(run, lambda _, keep=(arrays, compiled): {"out": out.transpose(0, 2, 1, 3)})

    def varlen(self, case):
        call = self.attention(case.padded)
        return Call(call.run, lambda r: {"out": case.pack(call.read(r)["out"])})
