"""multihead beside its peers: one process, the same buffers, equal threads, results compared before anything is timed.

    bench/peers.py [--work core,backward,decode] [--threads 1,2] [--library FILE] [--output FILE]

Each row is timed in rounds that go through all engines in turn; the figure is the median over rounds. `error` is the
largest absolute difference to NumPy in double precision, on sampled rows. Writes a JSON list and prints a table.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SAMPLED_ROWS = 8
ROUND_SECONDS = 0.15
ROUNDS = 7


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "seqlen_q", "seqlen_kv", "num_heads", "num_kv_heads",
                                                    "head_dim")] + [("causal", ctypes.c_int)]


def read_shapes(work):
    for line in (HERE / "shapes" / f"{work}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *numbers = line.split()
            yield name, Shape(*map(int, numbers))


class Case:
    """One shape: inputs [B, S, H, D] that every engine reads."""

    def __init__(self, shape, seed=1):
        self.shape = shape
        random = np.random.default_rng(seed)

        def tensor(tokens, heads):
            return random.uniform(-1, 1, (shape.batch, tokens, heads, shape.head_dim)).astype(np.float32)

        self.q, self.dout = tensor(shape.seqlen_q, shape.num_heads), tensor(shape.seqlen_q, shape.num_heads)
        self.k, self.v = tensor(shape.seqlen_kv, shape.num_kv_heads), tensor(shape.seqlen_kv, shape.num_kv_heads)

    def flops(self, products):
        s = self.shape
        pairs = s.seqlen_q * s.seqlen_kv
        if s.causal:
            pairs = sum(min(s.seqlen_kv, i + s.seqlen_kv - s.seqlen_q + 1) for i in range(s.seqlen_q))
        return 2.0 * products * s.batch * s.num_heads * pairs * s.head_dim

    def error(self, out):
        """Largest difference to double precision on some rows of `out` [B, Sq, H, D]."""
        s, random, worst = self.shape, np.random.default_rng(2), 0.0
        for _ in range(SAMPLED_ROWS):
            b, i, h = (int(random.integers(n)) for n in (s.batch, s.seqlen_q, s.num_heads))
            keys = i + s.seqlen_kv - s.seqlen_q + 1 if s.causal else s.seqlen_kv
            g = h // (s.num_heads // s.num_kv_heads)
            scores = self.k[b, :keys, g].astype(float) @ self.q[b, i, h].astype(float) / np.sqrt(s.head_dim)
            probs = np.exp(scores - scores.max())
            exact = probs @ self.v[b, :keys, g].astype(float) / probs.sum()
            worst = max(worst, float(np.abs(out[b, i, h] - exact).max()))
        return worst


class Multihead:
    name = "multihead"

    def __init__(self, library, threads):
        self.library = ctypes.CDLL(str(library))
        self.library.multihead_bench_peak.restype = ctypes.c_double
        self.library.multihead_bench_threads.restype = ctypes.c_void_p
        self.threads = ctypes.c_void_p(self.library.multihead_bench_threads(threads))

    def peak(self):
        return max(self.library.multihead_bench_peak() for _ in range(5))

    @staticmethod
    def pointers(*arrays):
        return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]

    def forward(self, case):
        s = case.shape
        out = np.empty_like(case.q)
        rows = np.empty((2, s.batch, s.num_heads, s.seqlen_q), np.float32)
        arguments = self.pointers(case.q, case.k, case.v) + [None] + self.pointers(out, rows[0], rows[1])

        def run():
            self.library.multihead_bench_forward(ctypes.byref(s), *arguments, self.threads)
            return out

        self.saved = out, rows
        return run

    def backward(self, case):
        self.forward(case)()
        out, rows = self.saved
        gradients = [np.empty_like(x) for x in (case.q, case.k, case.v)]
        arguments = self.pointers(case.q, case.k, case.v, out, rows[0], rows[1], case.dout, *gradients)

        def run():
            self.library.multihead_bench_backward(ctypes.byref(case.shape), *arguments, self.threads)
            return gradients

        return run


class Torch:
    """torch.nn.functional.scaled_dot_product_attention, its fused CPU kernel; inputs as views, no copy."""
    name = "torch-sdpa"

    def __init__(self, threads):
        import torch
        self.torch = torch
        torch.set_num_threads(threads)

    def tensors(self, case):
        return [self.torch.from_numpy(x).permute(0, 2, 1, 3) for x in (case.q, case.k, case.v)]

    def sdpa(self, q, k, v, s):
        causal = bool(s.causal)  # its corner is top left: the same as ours for equal lengths, all that is timed
        return self.torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=s.num_heads != s.num_kv_heads)

    def forward(self, case):
        q, k, v = self.tensors(case)

        def run():
            with self.torch.no_grad():
                return self.sdpa(q, k, v, case.shape).permute(0, 2, 1, 3).numpy()

        return run

    def backward(self, case):
        leaves = [x.requires_grad_() for x in self.tensors(case)]
        out = self.sdpa(*leaves, case.shape)
        dout = self.torch.from_numpy(case.dout).permute(0, 2, 1, 3)

        def run():
            gradients = self.torch.autograd.grad(out, leaves, dout, retain_graph=True)
            return [g.permute(0, 2, 1, 3).numpy() for g in gradients]

        return run


class OnnxRuntime:
    """The Attention operator of opset 23, 4-D inputs laid out [B, H, S, D] as it wants them; layout change not timed."""
    name = "onnxruntime"

    def __init__(self, threads):
        import onnxruntime
        self.runtime, self.threads = onnxruntime, threads

    def forward(self, case):
        from onnx import TensorProto, helper
        names = ["q", "k", "v"]
        arrays = dict(zip(names, (np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (case.q, case.k, case.v))))
        node = helper.make_node("Attention", names, ["y"], is_causal=case.shape.causal)
        graph = helper.make_graph([node], "attention",
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, arrays[n].shape) for n in names],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, arrays["q"].shape)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return lambda: session.run(None, arrays)[0].transpose(0, 2, 1, 3)


def median_times(runs):
    """Medians in seconds, rounds going through all runs in turn after a warm-up."""
    counts = {}
    for name, run in runs.items():
        run()
        begin = time.perf_counter()
        run()
        counts[name] = max(1, int(ROUND_SECONDS / max(time.perf_counter() - begin, 1e-7)))
    times = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.perf_counter()
            for _ in range(counts[name]):
                run()
            times[name].append((time.perf_counter() - begin) / counts[name])
    return {name: statistics.median(values) for name, values in times.items()}


def row(work, name, shape, threads, ours, peers):
    case = Case(shape)
    backward = work == "backward"
    runs, errors = {}, {}
    for engine in [ours, *peers]:
        make = getattr(engine, "backward" if backward else "forward", None)
        if make is None:
            continue
        run = make(case)
        result = run()
        if backward:
            reference = errors.setdefault("reference", [x.copy() for x in result])
            errors[engine.name] = max(float(np.abs(a - b).max()) for a, b in zip(result, reference))
        else:
            errors[engine.name] = case.error(result)
        if errors[engine.name] > 1e-3:
            sys.exit(f"{name}: {engine.name} differs by {errors[engine.name]:.1e}; nothing is timed")
        runs[engine.name] = run
    peak = ours.peak()
    times = median_times(runs)
    best = min((n for n in times if n != ours.name), key=times.get, default=None)
    gflops = case.flops(5 if backward else 2) / times[ours.name] / 1e9
    return {"work": work, "shape": name, "dtype": "f32", "threads": threads,
            "ours_ms": times[ours.name] * 1e3, "best_peer": best,
            "best_peer_ms": times[best] * 1e3 if best else None,
            "ratio": times[best] / times[ours.name] if best else None,
            "gflops": gflops, "peak_share": gflops / (peak * threads),
            "error": None if backward else errors[ours.name], "peer_error": errors[best] if best else None,
            "all_ms": {n: t * 1e3 for n, t in times.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="core,backward,decode")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--library", default=HERE.parent / "build/release/bench/libmultihead_bench.so")
    parser.add_argument("--output", default=HERE.parent / "build/bench/peers.json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    print(f"{'work':9}{'shape':19}{'thr':>3}{'ours ms':>10}{'peak':>6}  {'best peer':13}{'ms':>10}{'ratio':>7}{'error':>9}")
    for threads in map(int, options.threads.split(",")):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        ours, peers = Multihead(options.library, threads), [Torch(threads), OnnxRuntime(threads)]
        for work in options.work.split(","):
            for name, shape in read_shapes(work):
                r = row(work, name, shape, threads, ours, peers)
                rows.append(r)
                print(f"{work:9}{name:19}{threads:3}{r['ours_ms']:10.3f}{r['peak_share']:6.0%}  {r['best_peer']:13}"
                      f"{r['best_peer_ms']:10.3f}{r['ratio']:7.2f}{r['error'] or r['peer_error']:9.1e}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(rows, indent=1) + "\n")
    product = np.prod([r["ratio"] for r in rows]) ** (1 / len(rows))
    print(f"geometric mean of the ratios {product:.2f}, smallest {min(r['ratio'] for r in rows):.2f}; {options.output}")


if __name__ == "__main__":
    main()
