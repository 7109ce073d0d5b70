"""The roofline of one core: GFLOP/s over flops per byte of input and output, ours and the best peer.

    bench/roofline.py [FILE...]     FILE: build/bench/peers.json unless given; writes docs/roofline.svg

The roof is what the rows themselves measured: the FMA rate, and the rate at which keys and values of the longest decode
were read. Rows of one thread.
"""

import pathlib
import sys

import matplotlib

import runs

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/roofline.svg"
COLOURS = {"core": "#1f5fa8", "masks": "#8a4fa3", "backward": "#b5521b", "decode": "#2f7d4f"}
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2}


def bytes_once(work, shape, dtype):
    """Every tensor of the call read or written once."""
    for line in (ROOT / "bench" / "shapes" / f"{work}.txt").read_text().splitlines():
        words = line.split()
        if words and words[0] == shape:
            batch, seqlen_q, seqlen_kv, num_heads, num_kv_heads, head_dim = map(int, words[1:7])
            q_like, k_like = batch * seqlen_q * num_heads * head_dim, batch * seqlen_kv * num_kv_heads * head_dim
            tensors = 4 * q_like + 4 * k_like if work == "backward" else 2 * q_like + 2 * k_like
            if "bias" in line:
                tensors += seqlen_q * seqlen_kv * (num_heads if "bias=heads" in line else 1)
            return tensors * ITEM_BYTES[dtype]
    raise SystemExit(f"roofline: bench/shapes/{work}.txt has no shape {shape}")


def main():
    files = sys.argv[1:] or [ROOT / "build/bench/peers.json"]
    rows = [row for row in runs.load(files) if row["threads"] == 1 and row["work"] in COLOURS]
    peak = sorted(row["gflops"] / row["peak_share"] for row in rows)[len(rows) // 2]
    longest = max((row for row in rows if "read_gb_per_s" in row), key=lambda row: row["ours_ms"])
    bandwidth = longest["read_gb_per_s"]

    matplotlib.rcParams.update({"svg.hashsalt": "multihead", "svg.fonttype": "none"})  # the same rows, the same file
    figure, axes = plt.subplots(figsize=(8, 5))
    points = [(row["gflops"] * row["ours_ms"] * 1e6 / bytes_once(row["work"], row["shape"], row["dtype"]), row)
              for row in rows]
    low = min(intensity for intensity, _ in points) / 1.5
    high = max(intensity for intensity, _ in points) * 1.5
    knee = peak / bandwidth
    axes.plot([low, knee, high], [low * bandwidth, peak, peak], color="#444444", linewidth=1.2)
    axes.annotate(f"FMA {peak:.0f} GFLOP/s", (high, peak), (0, 4), textcoords="offset points", ha="right")
    axes.annotate(f"reading {bandwidth:.0f} GB/s", (knee, peak), (4, -40), textcoords="offset points", ha="left")
    for intensity, row in points:
        colour = COLOURS[row["work"]]
        peer = row["gflops"] * row["ours_ms"] / row["best_peer_ms"] if row["best_peer_ms"] else None
        if peer:
            axes.plot([intensity, intensity], [row["gflops"], peer], color=colour, linewidth=0.8, alpha=0.5)
            axes.plot(intensity, peer, "o", color=colour, markerfacecolor="white", markersize=5)
        axes.plot(intensity, row["gflops"], "o", color=colour, markersize=5)
    for work, colour in COLOURS.items():
        axes.plot([], [], "o", color=colour, label=work)
    axes.plot([], [], "o", color="#444444", markerfacecolor="white", label="best peer")
    axes.set(xscale="log", yscale="log", xlabel="flops per byte of input and output", ylabel="GFLOP/s",
             xlim=(low, high), ylim=(min(row["gflops"] for _, row in points) / 2, peak * 1.5))
    axes.set_yticks([3, 10, 30, 100], ["3", "10", "30", "100"])
    axes.grid(True, which="major", linewidth=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(TARGET, metadata={"Date": None})
    print(TARGET)


if __name__ == "__main__":
    main()
