"""Times of several runs, taken in turn."""

import statistics
import time

ROUND_SECONDS = 0.1  # of repeating one run
ROUNDS = 7
ROW_SECONDS = 15.0  # slow runs get fewer rounds, 3 at least
HOPELESS = 2.5  # times the best: no more rounds after a first run or two


def seconds(run, count=1):
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def median_times(runs, always=()):
    """Name -> median seconds. Rounds go through all runs in turn, so that a change of the machine meets all alike.

    Those named in `always` get all rounds however slow they are, and others are not held against them.
    """
    first = {name: seconds(run) for name, run in runs.items()}

    def hopeless(name, factor):
        return name not in always and first[name] > factor * min(first[n] for n in runs if n not in always)

    for name, run in runs.items():
        if not hopeless(name, 2 * HOPELESS):
            first[name] = min(first[name], seconds(run))
    kept = [name for name in runs if not hopeless(name, HOPELESS)]
    counts = {name: max(1, int(ROUND_SECONDS / first[name])) for name in kept}
    round_seconds = sum(first[name] * counts[name] for name in kept)
    rounds = max(3, min(ROUNDS, int(ROW_SECONDS / round_seconds)))
    times = {name: [] for name in kept}
    for _ in range(rounds):
        for name in kept:
            if counts[name] > 1:
                runs[name]()  # wakes its threads, brings its data back
            times[name].append(seconds(runs[name], counts[name]))
    return first | {name: statistics.median(values) for name, values in times.items()}
