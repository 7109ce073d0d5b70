"""One row of the result: compare, then time."""

import statistics

from runs import best_peer
from timing import median_times, seconds

ENDLESS_SECONDS = 10.0  # a call of that length is not repeated: no row that it could win takes so long
REST_SECONDS = 0.05  # until threads of other engines, which spin after their work (OpenBLAS for 27 ms), are asleep


def ready_calls(method, case, engines, check, say):
    """Of each engine that can do the case: its call, error and seconds; and the errors of those that are wrong."""
    calls, errors, spent, wrong = {}, {}, {}, {}
    for engine in engines:
        make = getattr(engine, method, None)
        if make is None:
            continue
        try:
            call = make(case)
            if call is None:
                continue
            kept = []
            spent[engine.name] = seconds(lambda: kept.append(call.run()))
            result = call.read(kept[0])
        except Exception as error:  # whatever an engine throws at what it cannot do
            say(f"{engine.name} cannot: {str(error).strip().splitlines()[0][:150]}")
            continue
        error, is_wrong = check(result)
        if is_wrong:
            wrong[engine.name] = error
        else:
            calls[engine.name], errors[engine.name] = call, error
    return calls, errors, spent, wrong


def make_row(work, shape, threads, method, case, ours, peers, say):
    def tell(text):
        say(f"{work} {shape}: {text}")

    check = case.check_gradients if method == "backward" else case.check
    calls, errors, spent, wrong = ready_calls(method, case, [ours, *peers], check, tell)
    for name, error in wrong.items():
        tell(f"{name} is wrong by {error:.1e}")
    if ours.name in wrong:
        raise SystemExit(f"{work} {shape}: multihead is wrong by {wrong[ours.name]:.1e}; nothing is timed")

    endless = {name: spent[name] for name in calls if spent[name] > ENDLESS_SECONDS and name != ours.name}
    runs = {name: call.run for name, call in calls.items() if name not in endless}
    if method == "decode":
        runs["read"] = ours.reader(case.k, case.v)
    peaks = []
    times = endless | median_times(runs, always=(ours.name, "read"), rest=REST_SECONDS * (threads > 1),
                                   after={ours.name: lambda: peaks.append(ours.peak())})
    read_seconds = times.pop("read", None)
    return as_row({"machine": ours.machine(), "work": work, "shape": shape, "dtype": case.dtype, "threads": threads}, ours.name, times, errors,
                  case.flops(5) if method == "backward" else case.flops(), statistics.median(peaks) * threads) | \
        ({"wrong": wrong} if wrong else {}) | \
        (bandwidth(case.bytes_read(), times[ours.name], read_seconds) if read_seconds else {})


def as_row(row, ours, times, errors, flops, peak):
    best = best_peer(times)
    gflops = flops / times[ours] / 1e9
    return row | {"ours_ms": times[ours] * 1e3, "best_peer": best, "best_peer_ms": times[best] * 1e3 if best else None,
                  "ratio": times[best] / times[ours] if best else None, "gflops": gflops, "peak_share": gflops / peak,
                  "error": errors[ours], "peer_error": errors.get(best),
                  "all_ms": {name: time * 1e3 for name, time in sorted(times.items(), key=lambda item: item[1])}}


def bandwidth(num_bytes, ours_seconds, read_seconds):
    """What decoding makes of the rate at which the same buffers can be read."""
    return {"gb_per_s": num_bytes / ours_seconds / 1e9, "read_gb_per_s": num_bytes / read_seconds / 1e9,
            "read_share": read_seconds / ours_seconds}
