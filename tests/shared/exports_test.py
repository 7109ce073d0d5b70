#!/usr/bin/env python3
"""What shared libraries export of ours is what the public headers mark, no more and no less:
exports_test.py INCLUDE NM SOVERSION LIBRARY..

    a function    is declared with MULTIHEAD_API
    a member      belongs to a class that is declared with MULTIHEAD_API, and stands in a header
"""

import pathlib
import re
import subprocess
import sys

OF_CLASS = re.compile(r"(?:vtable|typeinfo|typeinfo name|VTT|construction vtable|guard variable|.*thunk.*) (?:for|to) ")


def without_templates(name):
    """a::b<c<d>>::e -> a::b::e"""
    while "<" in name.replace("operator<", ""):
        shorter = re.sub(r"<[^<>]*>", "", name)
        if shorter == name:
            break
        name = shorter
    return name


def own_name(symbol):
    """The qualified name of a demangled symbol of ours, or None: what stands before its parameters, without a result."""
    plain = OF_CLASS.sub("", symbol).replace("(anonymous namespace)", "anonymous")
    plain = without_templates(re.sub(r"\[abi:\w+\]", "", plain))
    before = plain.split("(")[0]
    found = re.search(r"(?:^|\s)(multihead::[\w:~]+(?:operator.*)?)$", before)
    return found[1] if found else None


def main():
    include, nm, soversion, *libraries = sys.argv[1:]
    text = "\n".join(file.read_text(encoding="utf-8") for file in pathlib.Path(include).rglob("*.hpp"))
    words = set(re.findall(r"\w+", text))
    classes = set(re.findall(r"(?:class|struct) MULTIHEAD_API (\w+)", text))
    functions = set(re.findall(r"^MULTIHEAD_API [^;(]*?(\w+)\(", text, re.MULTILINE))
    functions |= set(re.findall(r"^  MULTIHEAD_API (\w+)\(", text, re.MULTILINE))
    exported, faults = set(), []
    for library in libraries:
        done = subprocess.run([nm, "-DC", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True)
        for line in done.stdout.splitlines():
            symbol = line.split(maxsplit=2)[2]
            name = own_name(symbol)
            if name is None:
                continue
            parts = [part for part in name.split("::")[1:]]
            exported |= set(parts)
            is_member = any(part in classes for part in parts[:-1]) or parts[-1] in classes
            fits = parts[-1] in functions or (is_member and all(word in words for part in parts for word in re.findall(r"\w+", part)))
            if not fits:
                faults.append(f"{pathlib.Path(library).name} exports {symbol}")
    faults += [f"{name} says MULTIHEAD_API and is not exported" for name in sorted((classes | functions) - exported)]
    for library in libraries:
        done = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True)
        if f".so.{soversion}]" not in re.search(r"SONAME.*", done.stdout)[0]:
            faults.append(f"{library} must have the SONAME .so.{soversion}")
    print("\n".join(faults))
    print(f"{len(exported)} names exported, {len(faults)} faults")
    sys.exit(bool(faults) or len(exported) < 50)


if __name__ == "__main__":
    main()
