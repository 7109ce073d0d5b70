#!/usr/bin/env python3
"""architecture.py can fail: each rule against a small tree that breaks it."""

import pathlib
import tempfile
import unittest

import architecture


def faults_of(files):
    """The faults of a tree given as {path: content}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        return architecture.check(root)[0]


class Includes(unittest.TestCase):
    def expect(self, path, include, *faults, others=()):
        """`include` in `path` gives these faults; `others` exist too."""
        tree = {other: "" for other in others} | {path: f"// a file\n#include {include}\n"}
        name = include.strip('<">')
        self.assertEqual(faults_of(tree), [f"{path}:2: {name}: {fault}" for fault in faults])

    def test_downwards_is_right(self):
        self.expect("src/nn/linear.cpp", '"core/require.hpp"')
        self.expect("src/attention/forward.cpp", '"kernels/table.hpp"')
        self.expect("src/nn/linear.cpp", '"nn/blocks.hpp"')
        self.expect("src/report/page.cpp", '"multihead/lens.hpp"')
        self.expect("src/models/bert.cpp", '"multihead/nn/linear.hpp"')

    def test_a_source_of_the_same_name_elsewhere(self):
        self.expect("src/nn/linear.cpp", '"multihead/tensor.hpp"',
                    others=["src/core/tensor.cpp", "src/onnx/tensor.cpp", "include/multihead/onnx/tensor.hpp"])
        self.expect("src/nn/linear.cpp", '"multihead/tensor.hpp"',
                    "no single src/<folder>/ has a source of tensor.hpp's name; name its folder in HEADER_FOLDER",
                    others=["src/core/tensor.cpp", "src/onnx/tensor.cpp"])

    def test_upwards(self):
        self.expect("src/core/tensor.cpp", '"attention/plan.hpp"', "core must not use attention: it is not below it")
        self.expect("src/product/matmul.cpp", '"attention/plan.hpp"',
                    "product must not use attention: it is not below it")
        self.expect("src/nn/linear.cpp", '"multihead/model.hpp"', "nn must not use models: it is not below it",
                    others=["src/models/model.cpp"])

        self.expect("include/multihead/nn/linear.hpp", '"multihead/models/bert.hpp"',
                    "nn must not use models: it is not below it")

    def test_sideways(self):
        self.expect("src/text/wordpiece.cpp", '"models/bert.hpp"', "text must not use models: it is not below it")
        self.expect("src/onnx/case.cpp", '"models/bert.hpp"', "onnx must not use models: it is not below it")
        self.expect("src/io/npy.cpp", '"nn/linear.hpp"', "io must not use nn: it is not below it")

    def test_faces_see_public_headers_only(self):
        self.expect("cli/main.cpp", '"multihead/error.hpp"')
        self.expect("cli/main.cpp", '"args.hpp"', others=["cli/args.hpp"])
        self.expect("cli/main.cpp", '"core/require.hpp"', "cli/ sees include/multihead/ only")
        self.expect("examples/01.cpp", '"nn/linear.hpp"', "examples/ sees include/multihead/ only")
        self.expect("reference/forward.cpp", '"kernels/exp.hpp"', "reference/ sees include/multihead/ only")
        self.expect("cli/main.cpp", '"reference/forward.hpp"', "reference/ is for tests and bench only")

    def test_public_headers_use_nothing_private(self):
        self.expect("include/multihead/error.hpp", '"core/require.hpp"', "a public header must not use src/")
        self.expect("include/multihead/model.hpp", "<nlohmann/json.hpp>", "a public header must not use a library",
                    others=["src/models/model.cpp"])
        self.expect("include/multihead/attention_options.hpp", '"multihead/attention.hpp"')
        self.expect("include/multihead/error.hpp", '"multihead/attention.hpp"',
                    "core must not use attention: it is not below it")

    def test_libraries_keep_to_their_folders(self):
        self.expect("src/kernels/exp.cpp", "<hwy/highway.h>")
        self.expect("src/attention/forward.cpp", "<hwy/highway.h>", "attention must not use hwy")
        self.expect("src/attention/forward.cpp", "<immintrin.h>", "attention must not use immintrin.h")
        self.expect("src/nn/linear.cpp", "<fmt/format.h>", "nn must not use fmt")
        self.expect("src/onnx/case.cpp", "<fmt/format.h>", "onnx must not use fmt")
        self.expect("src/io/npy.cpp", "<unicode/uchar.h>", "io must not use unicode")
        self.expect("src/io/npy.cpp", "<boost/any.hpp>", "unknown library; name who may use it in LIBRARIES")
        for header in ["<vector>", "<cstdint>", "<sys/mman.h>", "<unistd.h>", "<source_location>"]:
            self.expect("src/io/npy.cpp", header)

    def test_a_file_has_its_place(self):
        self.expect("src/misc/a.cpp", "<vector>", "src/misc is not in the picture")
        self.expect("include/multihead/lost.hpp", "<vector>",
                    "no single src/<folder>/ has a source of this header's name; name its folder in HEADER_FOLDER")
        self.expect("src/nn/linear.cpp", '"blocks.hpp"', 'write it from src/: "nn/blocks.hpp"',
                    others=["src/nn/blocks.hpp"])
        self.expect("src/nn/linear.cpp", '"nowhere.hpp"', "not found under src/ or include/")


class Kernels(unittest.TestCase):
    TILE = "struct Lanes {\n  int n;\n};\n"

    def expect(self, files, *faults):
        self.assertEqual([fault for fault in faults_of(files) if fault.startswith("src/kernels")], list(faults))

    def test_what_is_named_is_included(self):
        tile = {"src/kernels/tile/tile-inl.hpp": self.TILE}
        uses = "inline void Use(Lanes& lanes) { std::min(1, 2); }\n"
        self.expect(tile | {"src/kernels/forward/a-inl.hpp":
                            '#include <algorithm>\n#include "kernels/tile/tile-inl.hpp"\n' + uses})
        self.expect(tile | {"src/kernels/forward/a-inl.hpp": '#include "kernels/tile/tile-inl.hpp"\n' + uses},
                    "src/kernels/forward/a-inl.hpp:1: must include algorithm, whose names it uses")
        self.expect(tile | {"src/kernels/forward/a-inl.hpp": "#include <algorithm>\n" + uses},
                    "src/kernels/forward/a-inl.hpp:1: must include kernels/tile/tile-inl.hpp, whose names it uses")

    def test_what_is_not_named_is_not_included(self):
        self.expect({"src/kernels/tile/tile-inl.hpp": self.TILE,
                     "src/kernels/forward/a-inl.hpp": '#include "kernels/tile/tile-inl.hpp"\n// Lanes in a comment\n'},
                    "src/kernels/forward/a-inl.hpp:1: includes kernels/tile/tile-inl.hpp, of which it uses nothing")

    def test_rooms_point_downwards(self):
        self.expect({"src/kernels/decode/d-inl.hpp": '#include "kernels/forward/f-inl.hpp"\ninline void Rows() { Ends(); }\n',
                     "src/kernels/forward/f-inl.hpp": "inline void Ends() {}\n"},
                    "src/kernels/decode/d-inl.hpp:1: kernels/forward/f-inl.hpp: "
                    "kernels/decode must not use kernels/forward: it is not below it")
        self.expect({"src/kernels/attic/d-inl.hpp": '#include "kernels/tile/f-inl.hpp"\ninline void A() { Ends(); }\n',
                     "src/kernels/tile/f-inl.hpp": "inline void Ends() {}\n"},
                    "src/kernels/attic/d-inl.hpp:1: kernels/tile/f-inl.hpp: src/kernels/attic is not in the picture")

    def test_a_name_has_one_home(self):
        self.expect({"src/kernels/tile/a-inl.hpp": "inline void Ends() {}\n",
                     "src/kernels/tile/b-inl.hpp": "inline void Ends() {}\n"},
                    "src/kernels: Ends is declared in more than one file")


class Lengths(unittest.TestCase):
    def test_limits(self):
        for path, kind, limit in [
            ("include/multihead/error.hpp", "header", 160),
            ("src/nn/a.hpp", "header", 160),
            ("src/kernels/a.cpp", "kernel", 300),
            ("examples/a.cpp", "example", 60),
            ("cli/a.cpp", "source", 400),
            ("tests/unit/a.cpp", "source", 400),
        ]:
            self.assertEqual(faults_of({path: "\n" * limit}), [])
            self.assertEqual(faults_of({path: "\n" * (limit + 1)}),
                             [f"{path}:{limit + 1}: {kind}s must have at most {limit} lines, got {limit + 1}"])


if __name__ == "__main__":
    unittest.main()
