#include "multihead/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/files.hpp"

namespace multihead {
namespace {

std::string load_error(const std::filesystem::path& path) {
  return error_of<CheckpointError>([&] { load_safetensors(path); });
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  Tensor<float, 2> a({2, 3});
  Tensor<double, 1> b({2});
  Tensor<index_t, 3> c({1, 2, 1});
  Tensor<bf16, 1> d({3});
  for (index_t i = 0; i < 6; ++i) a.data()[i] = 0.1f * static_cast<float>(i);
  b(1) = 1e-300;
  c(0, 1, 0) = -5;
  d(2) = to_bf16(1.5f);
  const TensorToSave saved[] = {tensor_to_save("d", d.view()), tensor_to_save("a", a.view()),
                                tensor_to_save("c", c.view()), tensor_to_save("b \"quoted\"", b.view())};
  save_safetensors(folder / "w.safetensors", saved, {{"format", "pt"}});

  const Safetensors file = load_safetensors(folder / "w.safetensors");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b \"quoted\"", "c", "d"}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const auto view = file.view<float, 2>("a");
  ASSERT_TRUE(view);
  for (index_t i = 0; i < 2; ++i) {
    for (index_t j = 0; j < 3; ++j) EXPECT_EQ(view(i, j), a(i, j));
  }
  EXPECT_EQ((file.read<double, 1>("b \"quoted\"")(1)), 1e-300);
  EXPECT_EQ((file.view<index_t, 3>("c")(0, 1, 0)), -5);
  EXPECT_EQ((file.read<float, 1>("d")(2)), 1.5f);
  EXPECT_FALSE((file.view<float, 1>("d"))) << "bf16 data are not a view of float";
}

TEST(Safetensors, TheSameTensorsGiveTheSameBytesInAnyOrder) {
  const TemporaryFolder folder;
  Tensor<float, 1> x({3}), y({2});
  Tensor<f16, 1> z({1});
  const TensorToSave one[] = {tensor_to_save("x", x.view()), tensor_to_save("y", y.view()),
                              tensor_to_save("z", z.view())};
  const TensorToSave two[] = {one[2], one[1], one[0]};
  save_safetensors(folder / "1", one);
  save_safetensors(folder / "2", two);
  EXPECT_EQ(read_bytes(folder / "1"), read_bytes(folder / "2"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2) << "no other file is left";
}

TEST(Safetensors, ReadsTensorsInAnyHeaderOrderAndEmptyOnes) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("w", safetensors_bytes(R"({"late":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
                                          R"("none":{"data_offsets":[4,4],"shape":[0,7],"dtype":"F64"},)"
                                          R"("early":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}  )",
                                          8));
  const Safetensors file = load_safetensors(path);
  EXPECT_EQ(file.at("late").data[0], std::byte{4});
  EXPECT_EQ(file.at("early").data[3], std::byte{3});
  EXPECT_EQ((file.read<float, 2>("none").size()), 0);
  EXPECT_TRUE(load_safetensors(folder.write("empty", safetensors_bytes("{}", 0))).names().empty());
}

TEST(Safetensors, ReadsUnalignedFloats) {
  const TemporaryFolder folder;
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const float values[] = {1.25f, -3.0f};
  std::string bytes = length_prefix(header.size()) + header + "\x7f";
  bytes.append(reinterpret_cast<const char*>(values), 8);
  for (const int shift : {0, 1, 2, 3}) {  // the header's length decides where the data lie
    const std::string shifted =
        length_prefix(header.size() + shift) + header + std::string(shift, ' ') + bytes.substr(8 + header.size());
    const Safetensors file = load_safetensors(folder.write(std::to_string(shift), shifted));
    const auto address = reinterpret_cast<std::uintptr_t>(file.at("x").data.data());
    EXPECT_EQ(bool(file.view<float, 1>("x")), address % 4 == 0);
    EXPECT_EQ((file.read<float, 1>("x")(0)), 1.25f);
    EXPECT_EQ((file.read<double, 1>("x")(1)), -3.0);
  }
}

// Files that break the format, one rule each, and the whole error text after "load_safetensors: ".
struct BrokenFile {
  std::string name, bytes, error;
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets, int data_bytes) {
  return safetensors_bytes("{" + entry("w", dtype, shape, offsets) + "}", data_bytes);
}

const std::string kGrammar =
    "the header must be {name: {dtype: text, shape: [numbers], data_offsets: [begin, end]}, ..}";

std::vector<BrokenFile> broken_files() {
  const std::string plain(4096, 'x');
  const auto two = [](const std::string& a, const std::string& b, int data_bytes) {
    return safetensors_bytes(
        "{" + entry("a", "U8", "[" + std::to_string(8) + "]", a) + "," + entry("b", "U8", "[8]", b) + "}", data_bytes);
  };
  return {
      {"Empty", "", "a file must begin with the 8 bytes of its header's length, got file_bytes=0"},
      {"SevenBytes", "1234567", "a file must begin with the 8 bytes of its header's length, got file_bytes=7"},
      {"Length2To53", length_prefix(9007199254740993u) + plain.substr(8),
       "header must end inside the file, got header_bytes=9007199254740993, file_bytes=4096"},
      {"Length2To63", length_prefix(std::uint64_t{1} << 63) + plain.substr(8),
       "header must end inside the file, got header_bytes=9223372036854775808, file_bytes=4096"},
      {"Length2To64Minus1", length_prefix(~std::uint64_t{0}) + plain.substr(8),
       "header must end inside the file, got header_bytes=18446744073709551615, file_bytes=4096"},
      {"LengthWraps", length_prefix(~std::uint64_t{0} - 7) + plain.substr(8),
       "header must end inside the file, got header_bytes=18446744073709551608, file_bytes=4096"},
      {"OneMoreThanTheFile", length_prefix(4089) + plain.substr(8),
       "header must end inside the file, got header_bytes=4089, file_bytes=4096"},
      {"NoHeader", length_prefix(0), "header must begin with {, got first_byte=-1"},
      {"Array", safetensors_bytes("[]", 0), "header must begin with {, got first_byte=91"},
      {"Space", safetensors_bytes(" {}", 0), "header must begin with {, got first_byte=32"},
      {"ByteOrderMark", safetensors_bytes("\xef\xbb\xbf{}", 0), "header must begin with {, got first_byte=239"},
      {"NotJson", safetensors_bytes("{\"a\":", 0),
       "the header must be valid JSON in UTF-8, got error_at_byte=6, header_starts_at_byte=8"},
      {"TwoValues", safetensors_bytes("{}{}", 0),
       "the header must be valid JSON in UTF-8, got error_at_byte=3, header_starts_at_byte=8"},
      {"NotUtf8", safetensors_bytes("{\"a\xff\":1}", 0),
       "the header must be valid JSON in UTF-8, got error_at_byte=4, header_starts_at_byte=8"},
      {"HugeNumber", one_tensor("F32", "[1e999]", "[0,4]", 4),
       "the header must be valid JSON in UTF-8, got error_at_byte=34, header_starts_at_byte=8"},
      {"Nested", safetensors_bytes(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0),
       kGrammar + ", got found=an array, at=\"a\""},
      {"NestedInShape", safetensors_bytes(R"({"a":{"shape":)" + std::string(100'000, '['), 0),
       kGrammar + ", got found=an array, at=\"a\""},
      {"NestedObjects",
       safetensors_bytes(
           [] {
             std::string text;
             for (int i = 0; i < 100'000; ++i) text += R"({"dtype":)";
             return text;
           }(),
           0),
       kGrammar + ", got found=an object, at=\"dtype\""},
      {"NumberForTensor", safetensors_bytes(R"({"a":1})", 0), kGrammar + ", got found=a number, at=\"a\""},
      {"NullShape", one_tensor("F32", "null", "[0,4]", 4), kGrammar + ", got found=null, at=\"w\""},
      {"NegativeShape", one_tensor("F32", "[-1]", "[0,4]", 4), kGrammar + ", got found=a negative number, at=\"w\""},
      {"BrokenShape", one_tensor("F32", "[1.0]", "[0,4]", 4),
       kGrammar + ", got found=a number that is not whole, at=\"w\""},
      {"TextInShape", one_tensor("F32", "[\"1\"]", "[0,4]", 4), kGrammar + ", got found=text, at=\"w\""},
      {"MetadataNotText", safetensors_bytes(R"({"__metadata__":{"a":1}})", 0),
       kGrammar + ", got found=a number, at=__metadata__"},
      {"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "__metadata__ must stand once"},
      {"MetadataKeyTwice", safetensors_bytes(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
       "a key must not stand twice in __metadata__, got key=\"k\""},
      {"UnknownField", safetensors_bytes(R"({"a":{"stride":[1]}})", 0),
       "a tensor must have the fields dtype, shape and data_offsets only, got tensor=\"a\", field=\"stride\""},
      {"FieldTwice", safetensors_bytes(R"({"a":{"dtype":"F32","dtype":"F64"}})", 0),
       "a field of a tensor must stand once, got tensor=\"a\", field=\"dtype\""},
      {"FieldMissing", safetensors_bytes(R"({"a":{"dtype":"F32","shape":[]}})", 4),
       "a tensor must have the fields dtype, shape and data_offsets, got tensor=\"a\""},
      {"NoOffsets", one_tensor("F32", "[2]", "[]", 8),
       "data_offsets must be [begin, end], got tensor=\"w\", data_offsets=[]"},
      {"OneOffset", one_tensor("F32", "[2]", "[8]", 8),
       "data_offsets must be [begin, end], got tensor=\"w\", data_offsets=[8]"},
      {"ManyOffsets", one_tensor("F32", "[2]", "[0,1,2,3,4,5,6,7,8]", 8),
       "data_offsets must be [begin, end], got tensor=\"w\", data_offsets=[0, 1, 2, 3, 4, 5, 6, 7, ..]"},
      {"ReversedOffsets", one_tensor("F32", "[2]", "[16,8]", 16),
       "data_offsets must be in order and lie inside the file's data, got tensor=\"w\", begin=16, end=8, "
       "data_bytes=16"},
      {"OffsetOf2To63", one_tensor("F32", "[2]", "[0,9223372036854775808]", 8),
       "shapes and offsets must be below 2^63, got tensor=\"w\", value=9223372036854775808"},
      {"EndPastTheFile", one_tensor("F32", "[2]", "[0,8]", 4),
       "data_offsets must be in order and lie inside the file's data, got tensor=\"w\", begin=0, end=8, data_bytes=4"},
      {"ShapeLargerThanBytes", one_tensor("F32", "[1000,1000]", "[0,4]", 4),
       "the bytes of a tensor must be those of its shape, got tensor=\"w\", dtype=F32, shape=[1000, 1000], "
       "shape_bytes=4000000, stored_bytes=4"},
      {"ProductOverflows", one_tensor("F32", "[4611686018427387904,4]", "[0,0]", 0),
       "the size of a tensor must fit in 63 bits, got tensor=\"w\", dtype=\"F32\", shape=[4611686018427387904, 4]"},
      {"ProductOverflowsThenZero", one_tensor("F32", "[4611686018427387904,4,0]", "[0,0]", 0),
       "the size of a tensor must fit in 63 bits, got tensor=\"w\", dtype=\"F32\", shape=[4611686018427387904, 4, 0]"},
      {"HalfByte", one_tensor("F4", "[3]", "[0,1]", 1),
       "a tensor must fill whole bytes, got tensor=\"w\", dtype=\"F4\", shape=[3]"},
      {"Overlap", two("[0,8]", "[4,12]", 12),
       "tensors must follow each other without gap or overlap, got tensor=\"b\", begin=4, end_of_the_one_before=8"},
      {"Gap", two("[0,8]", "[12,20]", 20),
       "tensors must follow each other without gap or overlap, got tensor=\"b\", begin=12, end_of_the_one_before=8"},
      {"GapBefore", one_tensor("U8", "[4]", "[4,8]", 8),
       "tensors must follow each other without gap or overlap, got tensor=\"w\", begin=4, end_of_the_one_before=0"},
      {"UncoveredTail", one_tensor("F32", "[1]", "[0,4]", 12),
       "tensors must cover the file's data to its end, got covered_bytes=4, data_bytes=12"},
      {"NoTensorsButData", safetensors_bytes("{}", 3),
       "tensors must cover the file's data to its end, got covered_bytes=0, data_bytes=3"},
      {"NameTwice",
       safetensors_bytes("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", 2),
       "a tensor must stand once, got tensor=\"a\""},
      {"NameToEscape", safetensors_bytes(R"({"<\n\"\u0000>":1})", 0),
       kGrammar + ", got found=a number, at=\"<\\x0a\\\"\\x00>\""},
      {"LongName", safetensors_bytes(R"({")" + std::string(1000, 'n') + R"(":1})", 0),
       kGrammar + ", got found=a number, at=\"" + std::string(80, 'n') + "..\""},
  };
}

class BrokenSafetensors : public testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenSafetensors, IsRefusedWithAllNumbers) {
  const TemporaryFolder folder;
  const auto path = folder.write("w.safetensors", GetParam().bytes);
  EXPECT_EQ(load_error(path), "load_safetensors: " + GetParam().error + " (\"" + path.string() + "\")");
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenSafetensors, testing::ValuesIn(broken_files()),
                         [](const testing::TestParamInfo<BrokenFile>& file) { return file.param.name; });

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = one_tensor("F32", "[2]", "[0,8]", 8);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(load_safetensors(folder.write("w", whole.substr(0, size))), CheckpointError) << size;
  }
  EXPECT_NO_THROW(load_safetensors(folder.write("w", whole)));
}

TEST(Safetensors, AnyByteMayBeWrongWithoutHarm) {
  const TemporaryFolder folder;
  const std::string whole = one_tensor("F32", "[2]", "[0,8]", 8);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '\xff', '9', '"', '}'}) {
      std::string bytes = whole;
      bytes[at] = byte;
      try {
        const Safetensors file = load_safetensors(folder.write("w", bytes));
        for (const std::string& name : file.names()) file.read<float, 1>(name);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Safetensors, HugeHeadersAreRefusedBeforeTheyAreRead) {
  const TemporaryFolder folder;
  const auto path = folder.write("w", length_prefix(200'000'000) + "{");
  std::filesystem::resize_file(path, 300'000'000);  // sparse
  EXPECT_EQ(load_error(path),
            "load_safetensors: header must be at most 100,000,000 bytes, got header_bytes=200000000 (\"" +
                path.string() + "\")");
}

TEST(Safetensors, UnknownDTypesAreAnErrorOnlyWhenAskedFor) {
  const TemporaryFolder folder;
  const std::string header = "{" + entry("odd", "Q3_K", "[5]", "[0,3]") + "," + entry("x", "F32", "[1]", "[3,7]") + "}";
  const Safetensors file = load_safetensors(folder.write("w", safetensors_bytes(header, 7)));
  EXPECT_NO_THROW((file.read<float, 1>("x")));
  EXPECT_EQ(error_of<UnsupportedError>([&] { file.read<float, 1>("odd"); }),
            "Safetensors: a tensor of numbers must be stored as F32, F64, BF16 or F16, got tensor=\"odd\", "
            "dtype=\"Q3_K\", asked=f32");
}

TEST(Safetensors, AskingForTheWrongThingNamesIt) {
  const TemporaryFolder folder;
  const auto path = folder.write("w", one_tensor("F32", "[2,1]", "[0,8]", 8));
  const Safetensors file = load_safetensors(path);
  const std::string where = " (\"" + path.string() + "\")";
  EXPECT_EQ(error_of<CheckpointError>([&] { file.at("v"); }),
            "Safetensors: the tensor must be in the file, got tensor=\"v\"" + where);
  EXPECT_EQ(error_of<CheckpointError>([&] { file.read<float, 1>("w"); }),
            "Safetensors: the tensor must have the rank asked for, got tensor=\"w\", rank=2, asked_rank=1" + where);
  EXPECT_EQ(file.find("v"), nullptr);
}

TEST(Safetensors, PathsThatAreNoFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_error(folder / "absent"),
            "load_safetensors: the file must be readable, got error=No such file or directory (\"" +
                (folder / "absent").string() + "\")");
  EXPECT_EQ(load_error(folder.path()),
            "load_safetensors: the folder must hold model.safetensors or model.safetensors.index.json, got "
            "found=nothing (\"" +
                folder.path().string() + "\")");
  EXPECT_EQ(load_error("/dev/null"), "load_safetensors: the path must be a regular file (\"/dev/null\")");
}

class ShardedSafetensors : public testing::Test {
 protected:
  ShardedSafetensors() {
    folder.write("one.safetensors",
                 safetensors_bytes(
                     "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("hidden", "U8", "[1]", "[1,2]") + "}", 2));
    folder.write("two.safetensors", safetensors_bytes("{" + entry("b", "U8", "[2]", "[0,2]") + "}", 2));
  }
  std::string index_error(const std::string& index) {
    const auto path = folder.write("model.safetensors.index.json", index);
    const std::string text = load_error(folder.path());
    const std::string where = " (\"" + path.string() + "\")", function = "load_safetensors: ";
    EXPECT_TRUE(text.starts_with(function) && text.ends_with(where)) << text;
    return text.substr(function.size(), text.size() - function.size() - where.size());
  }
  const TemporaryFolder folder;
};

TEST_F(ShardedSafetensors, JoinsItsShards) {
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":3},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  for (const auto& path : {folder.path(), folder / "model.safetensors.index.json"}) {
    const Safetensors file = load_safetensors(path);
    EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"})) << "only what the index names";
    EXPECT_EQ(file.at("b").data[1], std::byte{1});
  }
}

TEST_F(ShardedSafetensors, MissingShardsAndTensorsAreNamed) {
  EXPECT_EQ(index_error(R"({"weight_map":{"a":"one.safetensors","c":"gone.safetensors"}})"),
            "a shard that the index names must be there, got shard=\"gone.safetensors\", tensor=\"c\"");
  EXPECT_EQ(index_error(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})"),
            "a tensor of the index must be in its shard, got tensor=\"c\", shard=\"two.safetensors\"");
}

TEST_F(ShardedSafetensors, ShardsStayInTheFolder) {
  for (const std::string name :
       {"../one.safetensors", "/etc/passwd", "..", ".", "", "sub/one", "sub\\\\one", "a\\u0000"}) {
    EXPECT_THAT(
        index_error(R"({"weight_map":{"a":")" + name + R"("}})"),
        testing::StartsWith("a shard must be a plain file name in the folder of the index, got tensor=\"a\", shard="))
        << name;
  }
  std::filesystem::create_symlink(folder / "one.safetensors", folder / "link");  // the owner's choice
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"link"}})");
  EXPECT_EQ(load_safetensors(folder.path()).names().size(), 1u);
}

TEST_F(ShardedSafetensors, BrokenIndexesAreRefused) {
  EXPECT_EQ(index_error("[]"), "an index must hold an object weight_map");
  EXPECT_EQ(index_error("{}"), "an index must hold an object weight_map");
  EXPECT_EQ(index_error(R"({"weight_map":[]})"), "an index must hold an object weight_map");
  EXPECT_EQ(index_error(R"({"weight_map":{"a":1}})"),
            "weight_map must give a file name for each tensor, got tensor=\"a\"");
  EXPECT_EQ(index_error(R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})"),
            "a JSON key must not stand twice in an object, got key=\"a\"");
  EXPECT_EQ(index_error("{"), "the file must be valid JSON in UTF-8, got error_at_byte=2");
  EXPECT_EQ(index_error(std::string(100'000, '[')), "JSON must be nested at most 64 deep");
  EXPECT_EQ(index_error("1e999"), "the file must hold JSON with numbers in range");
}

TEST(SaveSafetensors, RefusesWhatItCouldNotReadBack) {
  const TemporaryFolder folder;
  const auto save_error = [&](std::vector<TensorToSave> tensors) {
    return error_of<ShapeError>([&] { save_safetensors(folder / "w", tensors); });
  };
  Tensor<float, 2> x({2, 3});
  const TensorToSave good = tensor_to_save("x", x.view());
  TensorToSave bad = good;
  bad.tensor.shape = {2, 4};
  EXPECT_EQ(save_error({good, good}), "save_safetensors: a name must stand once, got tensor=\"x\"");
  EXPECT_EQ(save_error({bad}),
            "save_safetensors: a tensor must have a name, a known dtype, and the bytes of its shape, got tensor=\"x\", "
            "dtype=F32, shape=[2, 4], bytes=24");
  EXPECT_EQ(error_of<ShapeError>([&] {
              tensor_to_save("x", x.view().permute({1, 0}));
            }),
            "save_safetensors: a tensor must be contiguous, got tensor=\"x\"; clone it into a Tensor first");
  EXPECT_EQ(save_error({tensor_to_save("\xff", x.view())}), "save_safetensors: names and metadata must be UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(save_safetensors(folder / "no-such-folder/w", {{good}}), CheckpointError);
}

}  // namespace
}  // namespace multihead
