#!/usr/bin/env python3
"""Compiles every piece of C++ in the documents and in the comments of public headers: snippets_test.py SOURCE CXX [FLAG..]

    *.md                 each ```cpp block that is no whole program (readme_test.py runs those of the README)
    include/**/*.hpp     each block of a comment that is indented by three spaces or more and ends in code: its last line
                         ends in ";", before a // comment, or is "}"

`<!-- not compiled: why -->` or `// not compiled: why` on the line above leaves a snippet out, and is counted. What a
snippet uses without declaring it stands in snippet_context.hpp. Each is a function body of its own.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

CONTEXT = pathlib.Path(__file__).with_name("snippet_context.hpp")
FENCE = re.compile(r"^(?P<above>[^\n]*)\n```cpp\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^\s*///?(?P<indent> *)(?P<text>.*)$")
MARK = re.compile(r"(?:<!--|//) not compiled: \S")


def markdown_snippets(text):
    """(line, code, whether it is marked) of each ```cpp block."""
    for found in FENCE.finditer("\n" + text):
        yield text.count("\n", 0, found.start("body") - 1) + 1, found["body"], bool(MARK.search(found["above"]))


def ends_in_code(line):
    code = line.split("//")[0].strip()
    return code.endswith(";") or code == "}"


def header_snippets(text):
    """(line, code, whether it is marked) of each indented block of a comment that ends in code."""
    block, first, above = [], 0, ""
    lines = text.split("\n") + [""]
    for number, line in enumerate(lines, 1):
        found = COMMENT.match(line)
        if found and len(found["indent"]) >= 3 and found["text"]:
            if not block:
                first, above = number, lines[number - 2] if number > 1 else ""
            block.append(found["indent"] + found["text"])
            continue
        if block and ends_in_code(block[-1]):
            yield first, "\n".join(block) + "\n", bool(MARK.search(above))
        block = []


def main():
    source, compiler, *flags = sys.argv[1:]
    source = pathlib.Path(source)
    files = sorted(source.glob("*.md")) + sorted(source.glob("docs/**/*.md"))
    files += sorted(source.glob("include/multihead/**/*.hpp"))
    if any(list(header_snippets(f"//\n//   {code}\n")) for code in ("a formula = b", "rule, got x; hint")):
        sys.exit("header_snippets must not take prose")
    num_left, bodies, programs = 0, [], 0
    for file in files:
        find = markdown_snippets if file.suffix == ".md" else header_snippets
        for line, code, marked in find(file.read_text(encoding="utf-8")):
            where = f"{file.relative_to(source)}:{line}"
            if marked:
                print(f"{where}: not compiled")
                num_left += 1
            elif re.search(r"^int main\(", code, re.MULTILINE):
                programs += 1
                bodies.append((line, file, code, True))
            else:
                bodies.append((line, file, code, False))
    with tempfile.TemporaryDirectory() as folder:
        joined = [f'#include "{CONTEXT}"']
        units = []
        for number, (line, file, code, is_program) in enumerate(bodies):
            place = f'#line {line} "{file}"\n'
            if is_program:
                units.append(place + code)
            else:
                headers = re.findall(r"^ *(#include .*)$", code, re.MULTILINE)
                code = re.sub(r"^ *#include .*$", "", code, flags=re.MULTILINE)
                joined += headers + [f"void snippet_{number}() {{\n{place}{code}}}"]
        failed = False
        for number, text in enumerate(units + ["\n".join(joined) + "\n"]):
            unit = pathlib.Path(folder) / f"snippets_{number}.cpp"
            unit.write_text(text, encoding="utf-8")
            done = subprocess.run([compiler, *flags, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused",
                                   "-Werror", "-I", source / "include", unit], stderr=subprocess.PIPE, text=True)
            print(done.stderr, end="")
            failed = failed or done.returncode != 0
    print(f"{len(bodies)} snippets compiled, {programs} of them programs; {num_left} left out")
    sys.exit(failed or len(bodies) < 6)


if __name__ == "__main__":
    main()
