"""multihead beside its peers: one process a thread count, the same inputs, results compared before anything is timed.

    bench/peers.py [--work core,masks,..] [--shape base-512,..] [--threads 1,2] [--engines pytorch,..]
                   [--library FILE] [--output FILE]

A process may run on as many CPUs as it has threads, whatever an engine makes of its setting. `error` is the largest
absolute difference to double precision. An engine that cannot do a row is absent from it; one that gives a wrong result
is reported and never the best. Writes a JSON list of rows and prints a table.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import sys

import table
from row import make_row

HERE = pathlib.Path(__file__).resolve().parent
WORKS = "core,masks,varlen,backward,decode,layer,encode"


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def measure(options, threads, rows):
    """Sends all rows at one thread count as they are made. To be run in a process of its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    from cases import WORKS as kinds, shapes_of
    from engines import load_peers
    from engines.multihead import Multihead, TokensFirst
    ours = Multihead(options.library, threads)
    peers = [TokensFirst(options.library, threads), *load_peers(threads, options.engines, say)]
    for work in options.work:
        method, make_case = kinds[work]
        for name, words in shapes_of(work):
            if not options.shape or name in options.shape:
                rows.send(make_row(work, name, threads, method, make_case(words), ours, peers, say))


def rows_of(options, threads):
    """The same as a generator, without the engines in this process."""
    context = multiprocessing.get_context("fork")  # nothing that has threads is loaded yet
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(options, threads, send))
    process.start()
    send.close()
    while True:
        try:
            yield receive.recv()
        except EOFError:  # it ended
            break
    process.join()
    if process.exitcode != 0:
        sys.exit(f"bench: the process of {threads} threads ended with {process.exitcode}")


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=words(WORKS), type=words)
    parser.add_argument("--shape", default=[], type=words)
    parser.add_argument("--threads", default=[1, 2], type=lambda text: [int(n) for n in words(text)])
    parser.add_argument("--engines", default=[], type=words, help="names of bench/engines/*.py; all unless given")
    parser.add_argument("--library", default=HERE.parent / "build/release/bench/libmultihead_bench.so")
    parser.add_argument("--output", default=HERE.parent / "build/bench/peers.json", type=pathlib.Path)
    options = parser.parse_args()
    unknown = [work for work in options.work if work not in words(WORKS)]
    if unknown:
        parser.error(f"unknown work {unknown[0]}; known: {WORKS}")

    rows = []
    options.output.parent.mkdir(parents=True, exist_ok=True)
    print(table.header())
    for threads in options.threads:
        if threads > len(os.sched_getaffinity(0)):
            say(f"this process may use {len(os.sched_getaffinity(0))} CPUs; rows of {threads} threads are left out")
            continue
        for row in rows_of(options, threads):
            rows.append(row)
            print(table.line(row), flush=True)
            options.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(table.summary(rows))
    print(options.output)


if __name__ == "__main__":
    main()
