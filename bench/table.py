"""Rows as text: a line while they are measured, and the Markdown tables of README.md and docs/performance.md.

    bench/table.py readme|all [FILE...]     prints one
    bench/table.py update [FILE...]         puts them into the two files, below the marks of their machine
    bench/table.py summary [FILE...]        geometric mean and minimum of the ratios at each thread count

FILE: build/bench/peers.json unless given; of several runs each time is the median. docs/performance.md has a block of
rows for each machine; the blocks of other machines stay as they are. README.md shows the machine that its mark names.
"""

import math
import pathlib
import re
import sys

import runs

ROOT = pathlib.Path(__file__).resolve().parent.parent

# work, shape, what README calls it
README = [("core", "base-128", "128 tokens, 8 heads of 64"), ("core", "base-512", "512 tokens, 8 heads of 64"),
          ("core", "base-2048", "2048 tokens, 8 heads of 64"), ("core", "causal-2048", "the same, causal"),
          ("masks", "window-2048", "the same, the last 256 tokens visible"),
          ("masks", "bias-heads-2048", "2048 tokens, a bias for each head"),
          ("core", "llama-1b-512", "Llama-3.2-1B heads, 512 tokens, causal"),
          ("varlen", "mixed-32x16..512", "32 sequences of 16 to 512 tokens"),
          ("backward", "base-512", "backward, 512 tokens, 8 heads of 64"),
          ("decode", "llama-1b-32768", "decode, Llama-3.2-1B heads, 32768 keys"),
          ("layer", "base-128", "whole layer, 128 tokens, d_model 512"),
          ("encode", "minilm-1", "MiniLM-L6, 32 sentences one at a time"),
          ("encode", "minilm-32", "MiniLM-L6, 32 sentences at once")]
LIBRARIES = {"onnxruntime": "ONNX Runtime", "torch": "PyTorch", "openvino": "OpenVINO", "jax": "JAX",
             "onednn": "oneDNN", "ctranslate2": "CTranslate2", "openblas": "OpenBLAS"}


def header():
    return (f"{'work':9}{'shape':20}{'thr':>3}{'ours ms':>10}{'peak':>6}{'read':>6}"
            f"  {'best peer':16}{'ms':>10}{'ratio':>7}{'error':>9}")


def line(row):
    read = f"{row['read_share']:.0%}" if "read_share" in row else ""
    peer = (f"{row['best_peer']:16}{row['best_peer_ms']:10.3f}{row['ratio']:7.2f}" if row["best_peer"]
            else f"{'none':16}{'':17}")
    return (f"{row['work']:9}{row['shape']:20}{row['threads']:3}{row['ours_ms']:10.3f}{row['peak_share']:6.0%}{read:>6}"
            f"  {peer}{row['error']:9.1e}")


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(rows):
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if not ratios:
        return "no peer did any row"
    return (f"{len(ratios)} rows beside a peer: geometric mean of the ratios {geometric_mean(ratios):.2f}, "
            f"smallest {min(ratios):.2f}, {sum(ratio < 1 for ratio in ratios)} below 1")


def milliseconds(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def cells(row, name=str):
    share = f"{row['read_share']:.0%} of reading" if "read_share" in row else f"{row['peak_share']:.0%}"
    share = share.replace("%", " %")
    peer = f"{milliseconds(row['best_peer_ms'])} ms ({name(row['best_peer'])})" if row["best_peer"] else "none"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
    return f"{milliseconds(row['ours_ms'])} ms | {peer} | {ratio} | {share} |"


def readme(rows):
    by_name = {(row["work"], row["shape"]): row for row in rows if row["threads"] == 1}
    lines = ["| work | multihead | best peer | ratio | of FMA peak | error |", "|---|---|---|---|---|---|"]
    for work, shape, title in README:
        if (work, shape) in by_name:
            row = by_name[work, shape]
            figures = cells(row, lambda peer: LIBRARIES[peer.split("-")[0]])
            lines.append(f"| {title} | {figures} {row['error']:.0e} |")
    return "\n".join(lines)


def all_rows(rows):
    lines = ["| work | shape | threads | multihead | best peer | ratio | of FMA peak | error | [B, S, H, D] |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        tokens_first = row["all_ms"].get("multihead-tokens-first")
        also = f"{milliseconds(tokens_first)} ms" if tokens_first else ""
        lines.append(f"| {row['work']} | {row['shape']} | {row['threads']} | {cells(row)} {row['error']:.0e} | {also} |")
    return "\n".join(lines)


TABLES = {"readme": readme, "all": all_rows}
FILES = {"readme": "README.md", "all": "docs/performance.md"}


def replaced(text, name, machine, table):
    """The text with a table in its block: from the mark of its machine to the next empty line.

    A machine that has no block of all rows yet gets one behind the last; README's one block stays its machine's.
    """
    mark = f"<!-- bench/table.py {name}: {machine} -->\n"
    block = mark + table + "\n"
    if mark in text:
        return re.sub(re.escape(mark) + r"(.+\n)*", lambda _: block, text)
    blocks = list(re.finditer(rf"<!-- bench/table.py {name}: .*-->\n(.+\n)*", text))
    if not blocks:
        sys.exit(f'table: no line "<!-- bench/table.py {name}: MACHINE -->" was found')
    if name == "readme":
        return text
    end = blocks[-1].end()
    return f"{text[:end]}\n{machine}:\n\n{block}{text[end:]}"


def update(rows):
    for machine in {row["machine"]: None for row in rows}:
        of_machine = [row for row in rows if row["machine"] == machine]
        for name, make in TABLES.items():
            path = ROOT / FILES[name]
            path.write_text(replaced(path.read_text(), name, machine, make(of_machine)))


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in (*TABLES, "update", "summary"):
        sys.exit(__doc__)
    rows = runs.load(sys.argv[2:] or [ROOT / "build/bench/peers.json"])
    if sys.argv[1] == "update":
        update(rows)
    elif sys.argv[1] == "summary":
        for machine, threads in sorted({(row["machine"], row["threads"]) for row in rows}):
            of_both = [row for row in rows if (row["machine"], row["threads"]) == (machine, threads)]
            print(f"{machine}, {threads} threads:", summary(of_both))
    else:
        print(TABLES[sys.argv[1]](rows))


if __name__ == "__main__":
    main()
