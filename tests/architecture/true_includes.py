"""The folders of src/kernels, and their includes: a file includes the files that declare what it names, and no others.

A kernel file is compiled once per target through a chain of includes, so a missing include shows only when somebody
changes the order. Names are found by text: what a file declares outside braces, and the words of its code.
"""

import re

# Lowest first, as in docs/design.md, section 1: a folder uses folders of lower rows only. Files beside the folders are the
# contract with the rest (kernels.hpp, elementwise.hpp), which all may use, and the tables, which use all.
ROOMS = [["simd"], ["product"], ["tile"], ["forward", "decode", "backward"]]
ROOM_LEVEL = {room: level for level, row in enumerate(ROOMS) for room in row}

# A declaration outside braces starts its line.
DECLARED = [
    re.compile(r"^(?:struct|class|enum class) (\w+)(?!.*;\s*$)", re.M),
    re.compile(r"^(?:alignas\(64\) )?inline constexpr (?:[\w:]+) (k\w+)", re.M),
    re.compile(r"^(?:using) (\w+) =", re.M),
    re.compile(r"^(?:HWY_INLINE |HWY_NOINLINE |inline )*(?:[\w:]+(?:<[^()]*>)?[&*]* )([A-Z]\w*)\(", re.M),
]
STANDARD = {
    "algorithm": r"std::(?:min|max|clamp|fill|fill_n|copy|copy_n)\b",
    "cstddef": r"std::size_t\b",
    "cmath": r"std::(?:log|sqrt|fma|abs)\b",
    "cstdint": r"std::u?int\d+_t\b",
    "cstring": r"std::mem\w+",
    "limits": r"std::numeric_limits\b",
    "type_traits": r"std::(?:integral_constant|is_\w+|remove_\w+|conditional_t)\b",
}
LIBRARY = {
    "hwy/highway.h": r"\b(?:hn::|HWY_[A-Z_]+)",
    "hwy/targets.h": r"\bhwy::(?:ChosenTarget|TargetName|SupportedTargets)\b",
    "hwy/cache_control.h": r"\bhwy::Prefetch\b",
    "hwy/contrib/math/math-inl.h": r"\bhn::(?:Tanh|Log|Exp)\(",
    "core/ceil_div.hpp": r"\b(?:ceil_div|round_up)\(",
    "core/philox.hpp": r"\b(?:philox|dropout_counter|PhiloxBlock)\b",
}
# What every kernel file needs, through the one header of the basics.
THROUGH = {"multihead/types.hpp": ["kernels/simd/basics-inl.hpp", "kernels/kernels.hpp"]}
TYPES = r"\b(?:index_t|DType|bf16|f16|dtype_bytes|to_float|to_bf16|to_f16)\b"


def code_of(text):
    """Without comments, strings and preprocessor lines."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"^\s*#.*(?:\\\n.*)*", "", text, flags=re.M)
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def included(text):
    return re.findall(r'^#include [<"]([^>"]+)[>"]', text, re.M)


def declared(text):
    return {name for pattern in DECLARED for name in pattern.findall(code_of(text))}


def wanted_includes(texts):
    """path -> the set of includes that its code needs, for {path below src/: text}."""
    home, several = {}, set()
    for path, text in texts.items():
        for name in declared(text):
            if name in home:
                several.add(name)
            home.setdefault(name, path)
    result = {}
    for path, text in texts.items():
        code = code_of(text)
        own = declared(text)
        words = set(re.findall(r"(?<![.\w])(?:template )?([A-Za-z]\w*)", code)) - own
        needs = {home[word] for word in words if word in home and word not in several} - {path}
        needs |= {name for name, pattern in (STANDARD | LIBRARY).items() if re.search(pattern, code)}
        if re.search(TYPES, code) and not needs & set(THROUGH["multihead/types.hpp"]):
            needs.add("multihead/types.hpp")
        result[path] = needs
    return result, several


def room_of(path):
    """"tile" of kernels/tile/scores-inl.hpp; None of a file beside the folders."""
    parts = path.split("/")
    return parts[1] if parts[0] == "kernels" and len(parts) == 3 else None


def fault_of_room(path, include):
    """Why kernels/<room>/<file> may not include `include`, or None."""
    own, used = room_of(path), room_of(include)
    for room in (own, used):
        if room is not None and room not in ROOM_LEVEL:
            return f"src/kernels/{room} is not in the picture"
    if own is None or used is None or own == used or ROOM_LEVEL[used] < ROOM_LEVEL[own]:
        return None
    return f"kernels/{own} must not use kernels/{used}: it is not below it"


def faults(root):
    """Each as file:1: text, for root/src/kernels."""
    folder = root / "src"
    paths = sorted(path for path in (folder / "kernels").rglob("*.hpp"))
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    wanted, several = wanted_includes(texts)
    found = [f"src/kernels: {name} is declared in more than one file" for name in sorted(several)]
    for path, needs in wanted.items():
        has = set(included(texts[path]))
        found += [f"src/{path}:1: {name}: {fault_of_room(path, name)}" for name in sorted(has)
                  if fault_of_room(path, name)]
        found += [f"src/{path}:1: must include {name}, whose names it uses" for name in sorted(needs - has)]
        found += [f"src/{path}:1: includes {name}, of which it uses nothing" for name in sorted(has - needs)]
    return found
