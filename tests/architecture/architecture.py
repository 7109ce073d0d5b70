#!/usr/bin/env python3
"""The picture of docs/design.md, section 1, held: who may include what, and how long a file may be.

    architecture.py SOURCE_DIR      prints each fault as file:line: text; exit code 1 if there is one
"""

import pathlib
import re
import sys

import true_includes

# One row a level, lowest first. A folder uses the folders of lower rows, never its own row's others nor a higher row's.
LEVELS = [
    ["core"],
    ["kernels"],
    ["product"],
    ["attention"],
    ["nn", "io"],
    ["text"],
    ["models", "onnx"],
    ["lens", "train"],
    ["report"],
]
LEVEL = {folder: level for level, row in enumerate(LEVELS) for folder in row}
ENGINE = {"core", "kernels", "product", "attention", "nn"}

# include/multihead/<folder>/ and <folder>.hpp belong to that folder, another public header to the folder that has a
# source of its name (and no public header of that name in its own folder). These have none:
HEADER_FOLDER = {
    "any_view": "core",
    "broadcast_view": "core",
    "buffer": "core",
    "error": "core",
    "export": "core",
    "layout": "core",
    "multihead": "nn",
    "tensor_view": "core",
    "attention_options": "attention",
}

# Faces see include/multihead/ only, as a user does. reference/ is the definition: it uses nothing of src/ either.
FACES = ["cli", "examples", "reference"]

# Who may include a library's headers, by the first part of the path. What is not here may be included by nobody.
TOOLS = set(LEVEL) - ENGINE - {"onnx"}
LIBRARIES = {
    "hwy": {"kernels"},
    "fmt": TOOLS | {"cli"},
    "nlohmann": TOOLS | {"cli"},
    "unicode": {"text", "cli"},
    "zlib.h": {"report"},
    "sentencepiece_processor.h": {"train"},
    "sentencepiece_trainer.h": {"train"},
    "Eigen": {"lens"},
    "CLI": {"cli"},
    "httplib.h": {"cli"},
    "immintrin.h": {"kernels"},
    "arm_neon.h": {"kernels"},
    "arm_sve.h": {"kernels"},
}
SYSTEM = re.compile(r"[a-z_]+|(sys/)?[a-z_]+\.h|c(std)?[a-z]+")  # C++ and POSIX headers

LINES = {"header": 160, "kernel": 300, "example": 60, "source": 400}

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of_header(root, name):
    """The folder of include/multihead/<name>."""
    path = pathlib.PurePath(name)
    stem = path.stem
    if len(path.parts) > 1:
        return path.parts[0] if path.parts[0] in LEVEL else None
    if stem in LEVEL:
        return stem
    if stem in HEADER_FOLDER:
        return HEADER_FOLDER[stem]
    homes = [folder for folder in LEVEL if (root / "src" / folder / f"{stem}.cpp").exists()
             and not (root / "include/multihead" / folder / path.name).exists()]
    return homes[0] if len(homes) == 1 else None


def fault_of_include(root, file, quote, path):
    """Why `file` may not include `path`, or None."""
    first, _, rest = path.partition("/")
    place = file.parts[0]  # include, src, or one of FACES
    if place == "src":
        own = file.parts[1]
        if own not in LEVEL:
            return f"src/{own} is not in the picture"
    elif place == "include":
        own = folder_of_header(root, file.relative_to("include/multihead"))
        if own is None:
            return "no single src/<folder>/ has a source of this header's name; name its folder in HEADER_FOLDER"
    else:
        own = place

    if first in LIBRARIES:
        if own not in LIBRARIES[first]:
            return f"{own} must not use {first}"
        return "a public header must not use a library" if place == "include" else None
    if quote == "<":
        return None if SYSTEM.fullmatch(path) else "unknown library; name who may use it in LIBRARIES"

    if first == "multihead" or (root / file.parent / path).exists():
        if first != "multihead":
            return None if place in FACES else f'write it from src/: "{own}/{path}"'
        used = folder_of_header(root, rest)
        if used is None:
            return f"no single src/<folder>/ has a source of {rest}'s name; name its folder in HEADER_FOLDER"
    elif first == "reference":
        return None if place == "reference" else "reference/ is for tests and bench only"
    elif first in LEVEL:
        if place in FACES:
            return f"{place}/ sees include/multihead/ only"
        if place == "include":
            return "a public header must not use src/"
        used = first
    else:
        return "not found under src/ or include/"

    if own in LEVEL and used != own and LEVEL[used] >= LEVEL[own]:
        return f"{own} must not use {used}: it is not below it"
    return None


def fault_of_length(file, num_lines):
    kind = "source" if file.suffix == ".cpp" else "header"
    if file.parts[:2] == ("src", "kernels"):
        kind = "kernel"
    elif file.parts[0] == "examples":
        kind = "example"
    return f"{kind}s must have at most {LINES[kind]} lines, got {num_lines}" if num_lines > LINES[kind] else None


def check(root):
    """All faults as file:line: text, and the number of includes read."""
    faults, num_includes = [], 0
    places = ["include", "src"] + FACES
    files = [path for place in places + ["bench", "tests"] for path in (root / place).rglob("*")
             if path.suffix in {".hpp", ".cpp", ".h"}]
    for path in sorted(files):
        file = path.relative_to(root)
        lines = path.read_text(encoding="utf-8").splitlines()
        fault = fault_of_length(file, len(lines))
        if fault:
            faults.append(f"{file}:{len(lines)}: {fault}")
        if file.parts[0] not in places:
            continue
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            num_includes += 1
            fault = fault_of_include(root, file, *found.groups())
            if fault:
                faults.append(f"{file}:{number}: {found.group(2)}: {fault}")
    return faults + true_includes.faults(root), num_includes


def main():
    if len(sys.argv) != 2:
        sys.exit("architecture.py: give the source folder")
    faults, num_includes = check(pathlib.Path(sys.argv[1]))
    for fault in faults:
        print(fault)
    if num_includes == 0:
        sys.exit("architecture.py: no include found; is this the source folder?")
    print(f"{num_includes} includes read, {len(faults)} faults")
    sys.exit(len(faults) > 0)


if __name__ == "__main__":
    main()
