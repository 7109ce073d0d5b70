#include "multihead/onnx/file.hpp"

#include <gtest/gtest.h>

#include "models/files.hpp"
#include "onnx/proto.hpp"
#include "onnx/protobuf_bytes.hpp"

namespace multihead {
namespace {

using namespace protobuf;

constexpr index_t kHugeExtent = index_t{1} << 40;

// TensorProto: 1 dims, 2 data_type, 3 segment, 4 floats, 5 int32, 6 strings, 7 int64, 8 name, 9 raw, 10 doubles,
// 11 uint64, 13 external_data, 14 data_location.
class OnnxFile : public testing::Test {
 protected:
  NamedOnnxTensor load(const std::string& content) { return load_onnx_tensor(folder_.write("t.pb", content)); }

  template <class T>
  std::vector<T> values(const std::string& content) {
    const OnnxTensor tensor = load(content).tensor;
    EXPECT_EQ(tensor.type(), onnx_type_of<T>);
    return {tensor.data<T>(), tensor.data<T>() + tensor.size()};
  }

  // The error's text without the path that ends it.
  template <class E = CheckpointError>
  std::string error(const std::string& content) {
    return without_path(error_of<E>([&] { load(content); }), "t.pb");
  }

  template <class E = CheckpointError>
  std::string graph_error(const std::string& content) {
    const auto path = folder_.write("m.onnx", content);
    return without_path(error_of<E>([&] { load_onnx_graph(path); }), "m.onnx");
  }

  TemporaryFolder folder_;

 private:
  std::string without_path(const std::string& text, const char* file) {
    const std::string tail = " (\"" + (folder_ / file).string() + "\")";
    EXPECT_TRUE(text.ends_with(tail)) << text;
    return text.substr(0, text.size() - std::min(text.size(), tail.size()));
  }
};

TEST_F(OnnxFile, ReadsRawData) {
  const std::string content =
      integer(1, 2) + integer(1, 1) + integer(2, 1) + bytes(8, "x") + bytes(9, raw(1.5f) + raw(-2.0f));
  const NamedOnnxTensor named = load(content);
  EXPECT_EQ(named.name, "x");
  EXPECT_EQ(named.tensor.shape(), (std::vector<index_t>{2, 1}));
  EXPECT_EQ(values<float>(content), (std::vector<float>{1.5f, -2.0f}));
}

TEST_F(OnnxFile, ReadsTypedDataOfEveryFieldPackedOrNot) {
  const std::string two = bytes(1, varint(2));  // packed dims
  EXPECT_EQ(values<float>(two + integer(2, 1) + bytes(4, raw(1.0f) + raw(2.0f))), (std::vector<float>{1, 2}));
  EXPECT_EQ(values<float>(two + integer(2, 1) + number(4, 1) + number(4, 2)), (std::vector<float>{1, 2}));
  EXPECT_EQ(values<double>(two + integer(2, 11) + bytes(10, raw(1.0)) + key(10, 1) + raw(2.0)),
            (std::vector<double>{1, 2}));
  EXPECT_EQ(values<index_t>(two + bytes(7, varint(3) + varint(~std::uint64_t{0})) + integer(2, 7)),
            (std::vector<index_t>{3, -1}));
  EXPECT_EQ(values<std::uint32_t>(two + integer(2, 12) + integer(11, 3) + integer(11, 4'294'967'295)),
            (std::vector<std::uint32_t>{3, 4'294'967'295u}));
  EXPECT_EQ(values<std::int8_t>(two + integer(2, 3) + integer(5, -7) + integer(5, 7)),
            (std::vector<std::int8_t>{-7, 7}));
  const OnnxTensor half = load(two + integer(2, 10) + bytes(5, varint(0x3c00) + varint(0xc000))).tensor;
  EXPECT_EQ(to_float(half.data<f16>()[0]), 1.0f);
  EXPECT_EQ(to_float(half.data<f16>()[1]), -2.0f);
}

TEST_F(OnnxFile, ABoolIsAnyByteThatIsNotZero) {
  const OnnxTensor tensor = load(integer(1, 4) + integer(2, 9) + bytes(9, std::string_view("\0\1\2\xff", 4))).tensor;
  const auto* bits = reinterpret_cast<const unsigned char*>(tensor.bytes());
  EXPECT_EQ(std::vector<int>(bits, bits + 4), (std::vector<int>{0, 1, 1, 1}));
}

TEST_F(OnnxFile, PassesOverFieldsThatItDoesNotKnow) {
  const std::string unknown = integer(100, 1) + bytes(536870911, "??") + key(101, 1) + raw(1.0) + number(102, 1);
  EXPECT_EQ(values<float>(unknown + integer(2, 1) + unknown + bytes(9, raw(2.0f)) + unknown), std::vector<float>{2.0f});
}

TEST_F(OnnxFile, EmptyTensorsAndScalars) {
  EXPECT_EQ(load(integer(1, 0) + integer(1, 3) + integer(2, 1)).tensor.shape(), (std::vector<index_t>{0, 3}));
  EXPECT_TRUE(load(integer(2, 7) + integer(7, 9)).tensor.shape().empty());
}

TEST_F(OnnxFile, ReadsAGraph) {
  const std::string attributes = bytes(5, bytes(1, "scale") + number(2, 0.5f) + integer(20, 1)) +
                                 bytes(5, bytes(1, "is_causal") + integer(3, 1) + integer(20, 2)) +
                                 bytes(5, bytes(1, "note") + bytes(4, "text") + integer(20, 3));
  const std::string node = bytes(1, "Q") + bytes(1, "") + bytes(2, "Y") + bytes(3, "a name") + bytes(4, "Attention") +
                           attributes + bytes(7, "ai.onnx");
  const std::string graph = bytes(1, node) + bytes(5, integer(2, 1) + bytes(8, "w") + bytes(9, raw(3.0f))) +
                            bytes(11, bytes(1, "Q") + bytes(2, "a type")) + bytes(12, bytes(1, "Y"));
  const OnnxGraph read =
      load_onnx_graph(folder_.write("m.onnx", integer(1, 10) + bytes(8, bytes(1, "other") + integer(2, 1)) +
                                                  bytes(8, integer(2, 24)) + bytes(7, graph)));
  EXPECT_EQ(read.opset, 24);
  EXPECT_EQ(read.inputs, std::vector<std::string>{"Q"});
  EXPECT_EQ(read.outputs, std::vector<std::string>{"Y"});
  ASSERT_EQ(read.nodes.size(), 1u);
  EXPECT_EQ(read.nodes[0].op_type, "Attention");
  EXPECT_EQ(read.nodes[0].domain, "ai.onnx");
  EXPECT_EQ(read.nodes[0].inputs, (std::vector<std::string>{"Q", ""}));
  EXPECT_EQ(read.nodes[0].attributes.at("scale"), OnnxAttribute(0.5f));
  EXPECT_EQ(read.nodes[0].attributes.at("is_causal"), OnnxAttribute(index_t{1}));
  EXPECT_EQ(read.nodes[0].attributes.at("note"), OnnxAttribute());
  EXPECT_EQ(read.initializers.at("w").data<float>()[0], 3.0f);
}

TEST_F(OnnxFile, RefusesDamagedWire) {
  EXPECT_EQ(error("\x80"), "load_onnx_tensor: a varint must end within 10 bytes and inside its message, got offset=0");
  EXPECT_EQ(error(key(2, 0) + std::string(11, '\xff')),
            "load_onnx_tensor: a varint must end within 10 bytes and inside its message, got offset=1");
  EXPECT_EQ(error(key(9, 2) + varint(5) + "abcd"),
            "load_onnx_tensor: a field must end inside its message, got field_bytes=5, bytes_left=4, offset=2");
  EXPECT_EQ(
      error(key(9, 2) + varint(~std::uint64_t{0})),
      "load_onnx_tensor: a field must end inside its message, got field_bytes=18446744073709551615, bytes_left=0, "
      "offset=11");
  EXPECT_EQ(error(key(4, 5) + "abc"),
            "load_onnx_tensor: a field must end inside its message, got field_bytes=4, bytes_left=3, offset=1");
  EXPECT_EQ(error(key(0, 0) + varint(1)),
            "load_onnx_tensor: a field's number must be in [1, 536870911], got number=0, offset=0");
  EXPECT_EQ(error(varint(std::uint64_t{1} << 35)),
            "load_onnx_tensor: a field's number must be in [1, 536870911], got number=4294967296, offset=0");
  EXPECT_EQ(error(integer(2, 1) + key(5, 3)),
            "load_onnx_tensor: a field's wire type must be 0, 1, 2 or 5, got field=5, wire_type=3, offset=2");
  EXPECT_EQ(error(bytes(2, "1")),
            "load_onnx_tensor: a field must have the wire type of its schema, got field=2, wire_type=2, expected=0, "
            "end_offset=3");
  EXPECT_EQ(error(integer(9, 1)),
            "load_onnx_tensor: a field must have the wire type of its schema, got field=9, wire_type=0, expected=2, "
            "end_offset=2");
  EXPECT_EQ(error(integer(4, 1)),
            "load_onnx_tensor: a field must have the wire type of its schema, got field=4, wire_type=0, expected=5, "
            "end_offset=2");
  EXPECT_EQ(error(bytes(4, "abcde")),
            "load_onnx_tensor: a field must end inside its message, got field_bytes=4, bytes_left=1, offset=6");
}

TEST_F(OnnxFile, RefusesShapesThatCannotBe) {
  const std::string rule =
      "load_onnx_tensor: there must be at most 16 extents, none negative, that fit in 61 bits of bytes, ";
  EXPECT_EQ(error(integer(1, -1) + integer(2, 1) + bytes(8, "x")), rule + "got tensor=\"x\", rank=1, shape=[-1]");
  EXPECT_EQ(error(integer(1, kHugeExtent) + integer(1, kHugeExtent) + integer(2, 1)),
            rule + "got tensor=\"\", rank=2, shape=[1099511627776, 1099511627776]");
  EXPECT_EQ(error(integer(1, 0) + integer(1, kHugeExtent) + integer(1, kHugeExtent) + integer(2, 1)),
            rule + "got tensor=\"\", rank=3, shape=[0, 1099511627776, 1099511627776]");
  EXPECT_EQ(error(bytes(1, std::string(1000, '\1')) + integer(2, 1)),
            rule + "got tensor=\"\", rank=1000, shape=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]");
}

TEST_F(OnnxFile, RefusesDataThatDoNotFillTheShape) {
  EXPECT_EQ(error(integer(1, 3) + integer(2, 1) + bytes(9, "abcdefgh")),
            "load_onnx_tensor: a tensor's data must fill its shape, got tensor=\"\", shape=[3], data_type=f32, "
            "data_bytes=8, expected=12");
  EXPECT_EQ(error(integer(1, kHugeExtent) + integer(2, 1)),
            "load_onnx_tensor: a tensor's data must fill its shape, got tensor=\"\", shape=[1099511627776], "
            "data_type=f32, data_bytes=0, expected=4398046511104")
      << "nothing of that size is allocated";
  EXPECT_EQ(error(integer(1, 1) + integer(2, 7) + bytes(9, "12345678") + integer(7, 1)),
            "load_onnx_tensor: a tensor's data must be in one field, got tensor=\"\", raw_bytes=8, typed_bytes=8");
  EXPECT_EQ(error(integer(1, 1) + integer(2, 7) + integer(5, 1)),
            "load_onnx_tensor: a tensor's data must be in the field of its type, got tensor=\"\", data_type=i64");
  EXPECT_EQ(error(integer(1, 1) + integer(2, 7) + number(4, 1)),
            "load_onnx_tensor: a tensor's data must be in the field of its type, got tensor=\"\", data_type=i64");
  EXPECT_EQ(error(integer(2, 7) + integer(5, 1) + integer(7, 1)),
            "load_onnx_tensor: a tensor's data must be in one field, got field=5, other_field=7");
}

TEST_F(OnnxFile, RefusesWhatItDoesNotRead) {
  EXPECT_EQ(error<UnsupportedError>(integer(2, 8)),
            "load_onnx_tensor: the element type must be f16, bf16, f32, f64, bool or an integer of 8 to 64 bits, "
            "got tensor=\"\", data_type=8");
  EXPECT_EQ(error<UnsupportedError>(integer(2, (index_t{1} << 32) + 1)),
            "load_onnx_tensor: the element type must be f16, bf16, f32, f64, bool or an integer of 8 to 64 bits, "
            "got tensor=\"\", data_type=4294967297");
  EXPECT_EQ(error<UnsupportedError>(bytes(8, "w\n\"") + integer(14, 1)),
            "load_onnx_tensor: data outside the file is not read, got tensor=\"w\\x0a\\\"\"");
  EXPECT_EQ(error<UnsupportedError>(bytes(13, bytes(1, "location") + bytes(2, "../../etc/passwd"))),
            "load_onnx_tensor: data outside the file is not read, got tensor=\"\"");
  EXPECT_EQ(error<UnsupportedError>(bytes(6, "text")),
            "load_onnx_tensor: segments and strings are not read, got field=6");
  EXPECT_EQ(graph_error<UnsupportedError>(bytes(7, bytes(15, ""))),
            "load_onnx_graph: sparse initializers are not read");
}

TEST_F(OnnxFile, RefusesDamagedGraphs) {
  EXPECT_EQ(graph_error(""),
            "load_onnx_graph: a model must have an opset and a graph with a node, got opset=0, nodes=0, file_bytes=0");
  EXPECT_EQ(graph_error(bytes(8, integer(2, 23)) + bytes(7, "")),
            "load_onnx_graph: a model must have an opset and a graph with a node, got opset=23, nodes=0, file_bytes=6");
  EXPECT_EQ(graph_error(bytes(7, bytes(1, key(5, 2) + varint(3) + "\x0a"))),
            "load_onnx_graph: a field must end inside its message, got field_bytes=3, bytes_left=1, offset=6");
  EXPECT_EQ(graph_error(bytes(7, bytes(1, integer(4, 1)))),
            "load_onnx_graph: a field must have the wire type of its schema, got field=4, wire_type=0, expected=2, "
            "end_offset=6");
}

TEST_F(OnnxFile, RefusesAFileThatIsNotThere) {
  EXPECT_EQ(error_of<CheckpointError>([&] { load_onnx_tensor(folder_ / "none.pb"); }),
            "load_onnx_tensor: the file must be readable, got error=No such file or directory (\"" +
                (folder_ / "none.pb").string() + "\")");
}

// Every cut and every changed byte of a real case's file is read or refused, never worse; sanitizers see the rest.
TEST_F(OnnxFile, SurvivesEveryCutAndEveryChangedByte) {
  const std::filesystem::path folder = std::filesystem::path(MULTIHEAD_SOURCE_DIR) / "tests/conformance/onnx_attention";
  const std::string model = read_bytes(folder / "test_attention_4d_diff_heads_mask4d_padded_kv/model.onnx");
  ASSERT_GT(model.size(), 100u);
  const auto survives = [&](const std::string& content) {
    try {
      read_model_proto({"m.onnx", "load_onnx_graph", std::as_bytes(std::span(content))});
      return 1;
    } catch (const Error&) {
      return 0;
    }
  };
  int read = 0;
  for (std::size_t cut = 0; cut < model.size(); ++cut) read += survives(model.substr(0, cut));
  EXPECT_LT(read, 20) << "a cut at a field's end alone can be read";
  for (std::size_t at = 0; at < model.size(); ++at) {
    for (const int change : {0x01, 0x07, 0x80, 0xff}) {
      std::string content = model;
      content[at] = static_cast<char>(content[at] ^ change);
      survives(content);
    }
  }
}

}  // namespace
}  // namespace multihead
