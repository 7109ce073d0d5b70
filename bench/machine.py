"""The name of this CPU, as the tables of docs/performance.md write it."""

import pathlib

# (vendor, family, first model, last model): name. A virtual machine often hides the name but not these numbers.
KINDS = {
    ("AuthenticAMD", 23, 0, 47): "AMD Zen", ("AuthenticAMD", 23, 48, 255): "AMD Zen 2",
    ("AuthenticAMD", 25, 0, 15): "AMD Zen 3", ("AuthenticAMD", 25, 16, 31): "AMD Zen 4",
    ("AuthenticAMD", 25, 32, 95): "AMD Zen 3", ("AuthenticAMD", 25, 96, 255): "AMD Zen 4",
    ("AuthenticAMD", 26, 0, 255): "AMD Zen 5",
    ("GenuineIntel", 6, 85, 85): "Intel Skylake-X or Cascade Lake", ("GenuineIntel", 6, 106, 108): "Intel Ice Lake",
    ("GenuineIntel", 6, 143, 143): "Intel Sapphire Rapids", ("GenuineIntel", 6, 173, 174): "Intel Granite Rapids",
    ("GenuineIntel", 6, 207, 207): "Intel Emerald Rapids",
}


def cpu_name(path="/proc/cpuinfo"):
    """A kind of the table above; else what the CPU calls itself; else "unknown CPU"."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return "unknown CPU"
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    try:
        family, model = int(fields["cpu family"]), int(fields["model"])
    except (KeyError, ValueError):
        return fields.get("model name", "unknown CPU")
    for (vendor, of_family, first, last), name in KINDS.items():
        if (fields.get("vendor_id"), family) == (vendor, of_family) and first <= model <= last:
            return name
    return fields.get("model name", "unknown CPU")
