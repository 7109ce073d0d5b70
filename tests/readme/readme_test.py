#!/usr/bin/env python3
"""Runs every block of a Markdown file: readme_test.py FILE BUILD_DIR SCRATCH_DIR

    ```cmake   the CMakeLists.txt of the file's programs
    ```cpp     a whole program, built as app.cpp on the installed library, and run
    ```sh      run in the source folder, with the built command first on PATH; make only where build/release is tested
    ```text    what the block above it prints; a line "..." stands for any lines

`<!-- not run: why -->` on the line above a block leaves it out. Any other kind of block is a fault, and so is
a link to a file that does not exist.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
FENCE = re.compile(r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?```(?P<kind>[a-z]*)\n(?P<body>.*?)^```$",
                   re.MULTILINE | re.DOTALL)


class Fault(Exception):
    pass


def blocks_of(text):
    """(line, kind, body, why it is not run or None) of each block."""
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("kind")) + 1
        yield line, found["kind"], found["body"], found["why"]


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise Fault(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def matches(expected, got):
    """Equal, where a line "..." of `expected` stands for any lines."""
    parts = [re.escape(line) + "\n" if line != "..." else "(?:.*\n)*?" for line in expected.rstrip("\n").split("\n")]
    return re.fullmatch("".join(parts), got.rstrip("\n") + "\n") is not None


class Runner:
    def __init__(self, source, build, scratch, cmake):
        self.source, self.build, self.scratch, self.cmake = source, build, scratch, cmake
        self.prefix = None

    def cache(self, name):
        found = re.search(rf"^{name}:\w+=(.*)$", (self.build / "CMakeCache.txt").read_text(), re.MULTILINE)
        return found[1] if found else ""

    def run_cpp(self, program):
        if self.cmake is None:
            raise Fault("a cmake block must say how a program is built")
        if self.prefix is None:
            self.prefix = self.scratch / "prefix"
            run(["cmake", "--install", self.build, "--prefix", self.prefix])
        project = self.scratch / "app"
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.22)\nproject(app LANGUAGES CXX)\n{self.cmake}", encoding="utf-8")
        (project / "app.cpp").write_text(program, encoding="utf-8")
        names = ["CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "CMAKE_BUILD_TYPE"]
        options = [f"-DCMAKE_PREFIX_PATH={self.prefix}"] + [f"-D{name}={self.cache(name)}" for name in names]
        run(["cmake", "-G", "Ninja", "-S", project, "-B", project / "build", *options])
        run(["cmake", "--build", project / "build"])
        return run([project / "build" / "app"])

    def run_sh(self, script):
        path = os.pathsep.join([str(self.build / "bin"), os.environ["PATH"]])
        return run(["sh", "-e", "-c", script], cwd=self.source, env=os.environ | {"PATH": path})


def main():
    readme, build, scratch = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    text = readme.read_text(encoding="utf-8")
    blocks = list(blocks_of(text))
    runner = Runner(readme.parent, build, scratch, next((body for _, kind, body, _ in blocks if kind == "cmake"), None))
    faults, num_run, num_left, printed = 0, 0, 0, None
    for line, kind, body, why in blocks:
        if kind == "sh" and re.search(r"^make ", body, re.MULTILINE) and build != readme.parent / "build/release":
            why = why or "make builds in build/release"
        try:
            if kind == "text":
                if printed is None:
                    raise Fault("stands below no block that was run")
                if not matches(body, printed):
                    raise Fault(f"must print\n{body}got\n{printed}")
                num_run += 1
            elif why:
                print(f"{readme.name}:{line}: not run: {why}")
                num_left += 1
            elif kind in ("cpp", "sh"):
                printed = runner.run_cpp(body) if kind == "cpp" else runner.run_sh(body)
                num_run += 1
                continue
            elif kind != "cmake":
                raise Fault(f'unknown kind of block, got "{kind}"; known: cmake, cpp, sh, text')
        except Fault as fault:
            print(f"{readme.name}:{line}: {fault}")
            faults += 1
        printed = None
    for link in LINK.findall(text):
        if not (readme.parent / link).exists():
            print(f"{readme.name}: there is no {link}")
            faults += 1
    print(f"{num_run} blocks run, {num_left} left out, {faults} faults")
    sys.exit(faults > 0 or num_run == 0)


if __name__ == "__main__":
    main()
