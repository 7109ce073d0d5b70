"""Rows of one run, or of several: then each time is the median over the runs."""

import json
import statistics

KEY = ("machine", "work", "shape", "dtype", "threads")  # what a row is a measurement of
OURS = "multihead"  # and multihead-tokens-first, the same in another layout


def best_peer(times):
    """The name of the fastest that is not ours; None without any."""
    return min((name for name in times if not name.startswith(OURS)), key=times.get, default=None)


def load(paths):
    """Rows of JSON files that bench/peers.py wrote; those of the same machine, work, shape, dtype and threads
    become one."""
    by_key = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for row in json.load(file):
                by_key.setdefault(tuple(row[name] for name in KEY), []).append(row)
    return [rows[0] if len(rows) == 1 else merged(rows) for rows in by_key.values()]


def merged(rows):
    names = {name for row in rows for name in row["all_ms"]}
    times = {name: statistics.median(row["all_ms"][name] for row in rows if name in row["all_ms"]) for name in names}
    ours = statistics.median(row["ours_ms"] for row in rows)
    best = best_peer(times)
    gflops = rows[0]["gflops"] * rows[0]["ours_ms"] / ours
    peak = statistics.median(row["gflops"] / row["peak_share"] for row in rows)
    row = rows[0] | {"ours_ms": ours, "best_peer": best, "best_peer_ms": times.get(best), "gflops": gflops,
                     "ratio": times[best] / ours if best else None, "peak_share": gflops / peak,
                     "error": max(row["error"] for row in rows),
                     "all_ms": dict(sorted(times.items(), key=lambda item: item[1]))}
    for rate in ("gb_per_s", "read_gb_per_s"):
        if rate in row:
            row[rate] = statistics.median(row[rate] for row in rows)
    if "read_share" in row:
        row["read_share"] = statistics.median(row["read_share"] * row["ours_ms"] for row in rows) / ours
    return row
