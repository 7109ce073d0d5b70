"""The goals of speed as a table: what must be reached, what should be, and what the rows of a run say."""

from runs import best_peer

# A goal: its text, how it is written, must, reach, and a function of rows[work, shape] at one thread count and at one
# thread. Greater is better unless must > reach.


def share(work, shape):
    return lambda rows, _: rows[work, shape]["peak_share"]


def ratio(work, shape):
    return lambda rows, _: rows[work, shape]["ratio"]


def least_ratio(work):
    return lambda rows, _: min(row["ratio"] for (of, _), row in rows.items() if of == work and row["ratio"])


def causal_gain(tokens):
    return lambda rows, _: rows["core", f"base-{tokens}"]["ours_ms"] / rows["core", f"causal-{tokens}"]["ours_ms"]


def padded_ratio(work):
    """Against those that pad: a loop over sequences and jagged tensors are other ways."""
    def of(row):
        times = {name: ms for name, ms in row["all_ms"].items() if name not in ("torch-loop", "torch-jagged")}
        return times[best_peer(times)]
    return lambda rows, _: min(of(row) / row["ours_ms"] for (name, _), row in rows.items() if name == work)


def read_share(shape):
    return lambda rows, _: rows["decode", shape]["read_share"]


def spread(shapes):
    def value(rows, _):
        times = [rows["layer", shape]["ours_ms"] for shape in shapes]
        return max(times) / min(times) - 1
    return value


def two_threads(*shapes):
    """Least gain of those shapes that were measured; nothing at one thread."""
    def value(rows, single):
        if rows is single:
            raise KeyError
        return min(single["core", shape]["ours_ms"] / rows["core", shape]["ours_ms"] for shape in shapes
                   if ("core", shape) in rows)
    return value


PERCENT, TIMES = "{:.0%}", "{:.2f}"
GOALS = [
    ("forward, 2048 tokens, D = 64: of peak", PERCENT, 0.82, 0.90, share("core", "base-2048")),
    ("the same, D = 128", PERCENT, 0.84, 0.92, share("core", "wide-2048")),
    ("the same, D = 32", PERCENT, 0.75, 0.82, share("core", "narrow-2048")),
    ("forward, 512 tokens", PERCENT, 0.78, 0.86, share("core", "base-512")),
    ("forward, 128 tokens", PERCENT, 0.74, 0.82, share("core", "base-128")),
    ("forward, 8192 tokens", PERCENT, 0.84, 0.90, share("core", "base-8192")),
    ("forward, 128 tokens: best peer / ours", TIMES, 1.9, 2.2, ratio("core", "base-128")),
    ("512 tokens", TIMES, 1.15, 1.3, ratio("core", "base-512")),
    ("2048 tokens", TIMES, 1.1, 1.2, ratio("core", "base-2048")),
    ("8192 tokens", TIMES, 1.05, 1.15, ratio("core", "base-8192")),
    ("causal against full, 512 tokens", TIMES, 1.75, 1.9, causal_gain(512)),
    ("2048 tokens", TIMES, 1.85, 1.95, causal_gain(2048)),
    ("8192 tokens", TIMES, 1.9, 1.98, causal_gain(8192)),
    ("masks, bias, probs, lse: least best peer / ours", TIMES, 1.0, 1.5, least_ratio("masks")),
    ("packed lengths: best padded batch / ours", TIMES, 1.5, 2.0, padded_ratio("varlen")),
    ("backward, 128 tokens: of peak", PERCENT, 0.70, 0.78, share("backward", "base-128")),
    ("512 tokens", PERCENT, 0.80, 0.86, share("backward", "base-512")),
    ("2048 tokens", PERCENT, 0.82, 0.88, share("backward", "base-2048")),
    ("backward: least best peer / ours", TIMES, 1.5, 2.0, least_ratio("backward")),
    ("decode, 32768 keys, 32 heads on 8: of the rate of reading", PERCENT, 0.62, 0.85, read_share("llama-1b-32768")),
    ("decode: least best peer / ours", TIMES, 1.5, 2.0, least_ratio("decode")),
    ("layer, 128 tokens: of peak", PERCENT, 0.90, 0.94, share("layer", "base-128")),
    ("the same: best peer / ours", TIMES, 1.5, 2.0, ratio("layer", "base-128")),
    ("layer, 512 tokens, 1 to 16 heads: slowest above fastest", PERCENT, 0.12, 0.08,
     spread(["heads-1", "heads-2", "heads-4", "base-512", "heads-16"])),
    ("two threads against one, 512 tokens and more", TIMES, 1.85, 1.95,
     two_threads("base-512", "base-2048", "base-8192")),
    ("128 tokens", TIMES, 1.55, 1.7, two_threads("base-128")),
    ("MiniLM-L6, a sentence: best peer / ours", TIMES, 1.3, 1.6, ratio("encode", "minilm-1")),
    ("32 sentences", TIMES, 1.3, 1.6, ratio("encode", "minilm-32"))]


def written(form, value):
    return form.format(value).replace("%", " %")


def cell(goal, rows, single):
    _, form, must, reach, value = goal
    try:
        got = value(rows, single)
    except (KeyError, ValueError):
        return ""  # these rows were not measured
    sign = -1 if must > reach else 1
    grade = "reach" if sign * got >= sign * reach else "must" if sign * got >= sign * must else "short"
    return f"{written(form, got)} {grade}"


def table(rows):
    by_threads = {threads: {(row["work"], row["shape"]): row for row in rows if row["threads"] == threads}
                  for threads in sorted({row["threads"] for row in rows})}
    single = by_threads.get(1, {})
    heads = [f"{threads} thread{'s' * (threads > 1)}" for threads in by_threads]
    lines = [f"| goal | must | reach | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for goal in GOALS:
        text, form, must, reach, _ = goal
        cells = [cell(goal, of, single) for of in by_threads.values()]
        lines.append(f"| {text} | {written(form, must)} | {written(form, reach)} | {' | '.join(cells)} |")
    return "\n".join(lines)
