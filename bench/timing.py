"""Times of several runs, taken in turn."""

import statistics
import time

ROUND_SECONDS = 0.04  # of repeating one run
ROUNDS = 11
ROW_SECONDS = 6.0  # slow runs get fewer rounds, 3 at least
HOPELESS = 2.5  # times the best: no rounds after a first look


def seconds(run, count=1):
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def first_look(run):
    """The least of some runs."""
    times = [seconds(run)]
    while len(times) < 5 and sum(times) < 5 * ROUND_SECONDS:
        times.append(seconds(run))
    return min(times)


def median_times(runs, always=(), rest=0.0, after=None):
    """Name -> median seconds. Rounds go through all runs in turn, so that a change of the machine affects all alike.

    Those named in `always` get all rounds however slow they are, and others are not compared with them. `rest` is a
    pause before each round, in seconds. `after` maps a name to a function that is called right after each of its
    rounds, outside the measured time.
    """
    after = after or {}
    first = {}
    for name, run in runs.items():
        time.sleep(rest)
        first[name] = first_look(run)
    best = min((first[name] for name in runs if name not in always), default=0.0)
    kept = [name for name in runs if name in always or first[name] <= HOPELESS * best]
    counts = {name: max(1, int(ROUND_SECONDS / first[name])) for name in kept}
    round_seconds = sum(first[name] * counts[name] for name in kept)
    rounds = max(3, min(ROUNDS, int(ROW_SECONDS / round_seconds)))
    times = {name: [] for name in kept}
    for _ in range(rounds):
        for name in kept:
            time.sleep(rest)
            if counts[name] > 1:
                runs[name]()  # wakes its threads, brings its data back
            times[name].append(seconds(runs[name], counts[name]))
            after.get(name, lambda: None)()
    return first | {name: statistics.median(values) for name, values in times.items()}
