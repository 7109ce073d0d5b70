#include "io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/file_error.hpp"
#include "io/json.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "load_safetensors";
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader of the format
constexpr index_t kPrefixBytes = 8;

struct StoredDType {
  std::string_view name;
  index_t bits;
};
constexpr StoredDType kStoredDTypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U16", 16}, {"I16", 16},    {"F16", 16},    {"BF16", 16},   {"U32", 32},
    {"I32", 32},    {"F32", 32},    {"U64", 64}, {"I64", 64},    {"F64", 64},    {"C64", 64},
};

std::string text_of(const std::vector<index_t>& shape) {
  constexpr std::size_t kShown = 8;
  const std::string text = shape_text(shape.data(), static_cast<int>(std::min(shape.size(), kShown)));
  return shape.size() <= kShown ? text : text.substr(0, text.size() - 1) + ", ..]";
}

struct Entry {
  std::string name;
  std::string dtype;
  std::vector<index_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// The grammar of the header, implemented as a handler of JSON events:
//   header = { name : { "dtype" : text, "shape" : [ number .. ], "data_offsets" : [ number, number ] } ..,
//              "__metadata__" : { key : text .. } }
// Any event that the grammar does not allow is refused at once, so depth and size are limited.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::filesystem::path& path) : path_(path) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool start_object(std::size_t) override {
    if (state_ == State::begin) return go(State::header);
    if (state_ != State::tensor_begin && state_ != State::metadata_begin) unexpected("an object");
    return go(state_ == State::tensor_begin ? State::tensor : State::metadata);
  }

  bool end_object() override {
    if (state_ == State::tensor) check_complete(entries.back());
    return go(state_ == State::header ? State::end : State::header);
  }

  bool key(string_t& key) override {
    key_ = std::move(key);
    switch (state_) {
      case State::header:
        if (key_ == "__metadata__") {
          require_file(!std::exchange(has_metadata_, true), path_, kFunction, "__metadata__ must stand once");
          return go(State::metadata_begin);
        }
        entries.emplace_back().name = key_;
        return go(State::tensor_begin);
      case State::metadata:
        require_file(!metadata.contains(key_), path_, kFunction, "a key must not stand twice in __metadata__",
                     {{"key", quote(key_)}});
        return true;
      default: return tensor_key();
    }
  }

  bool start_array(std::size_t) override {
    if (state_ != State::shape_begin && state_ != State::offsets_begin) unexpected("an array");
    return go(state_ == State::shape_begin ? State::shape : State::offsets);
  }
  bool end_array() override { return go(State::tensor); }

  bool string(string_t& text) override {
    if (state_ == State::metadata) {
      metadata.emplace(key_, std::move(text));
      return true;
    }
    if (state_ != State::dtype) unexpected("text");
    entries.back().dtype = std::move(text);
    return go(State::tensor);
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::shape && state_ != State::offsets) unexpected("a number");
    Entry& entry = entries.back();
    if (value > std::numeric_limits<index_t>::max()) {
      require_file(false, path_, kFunction, "shapes and offsets must be below 2^63",
                   {{"tensor", quote(entry.name)}, {"value", std::to_string(value)}});
    }
    (state_ == State::shape ? entry.shape : entry.offsets).push_back(static_cast<index_t>(value));
    return true;
  }

  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number that is not whole"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool null() override { return unexpected("null"); }
  bool binary(binary_t&) override { return unexpected("bytes"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    require_file(false, path_, kFunction, "the header must be valid JSON in UTF-8",
                 {{"error_at_byte", position}, {"header_starts_at_byte", kPrefixBytes}});
    return false;
  }

 private:
  enum class State {
    begin,
    header,
    end,
    metadata_begin,
    metadata,
    tensor_begin,
    tensor,
    dtype,
    shape_begin,
    shape,
    offsets_begin,
    offsets
  };

  bool go(State state) {
    state_ = state;
    return true;
  }

  bool tensor_key() {
    Entry& entry = entries.back();
    const auto first = [&](bool& has, State state) {
      require_file(!std::exchange(has, true), path_, kFunction, "a field of a tensor must stand once",
                   {{"tensor", quote(entry.name)}, {"field", quote(key_)}});
      return go(state);
    };
    if (key_ == "dtype") return first(entry.has_dtype, State::dtype);
    if (key_ == "shape") return first(entry.has_shape, State::shape_begin);
    if (key_ == "data_offsets") return first(entry.has_offsets, State::offsets_begin);
    require_file(false, path_, kFunction, "a tensor must have the fields dtype, shape and data_offsets only",
                 {{"tensor", quote(entry.name)}, {"field", quote(key_)}});
    return false;
  }

  void check_complete(const Entry& entry) const {
    require_file(entry.has_dtype && entry.has_shape && entry.has_offsets, path_, kFunction,
                 "a tensor must have the fields dtype, shape and data_offsets", {{"tensor", quote(entry.name)}});
    require_file(entry.offsets.size() == 2, path_, kFunction, "data_offsets must be [begin, end]",
                 {{"tensor", quote(entry.name)}, {"data_offsets", text_of(entry.offsets)}});
  }

  bool unexpected(std::string_view what) const {
    std::string where = "the header as a whole";
    if (state_ == State::metadata || state_ == State::metadata_begin) {
      where = "__metadata__";
    } else if (state_ != State::begin && !entries.empty()) {
      where = quote(entries.back().name);
    }
    require_file(false, path_, kFunction,
                 "the header must be {name: {dtype: text, shape: [numbers], data_offsets: [begin, end]}, ..}",
                 {{"found", std::string(what)}, {"at", where}});
    return false;
  }

  const std::filesystem::path& path_;
  State state_ = State::begin;
  std::string key_;
  bool has_metadata_ = false;
};

// Byte count of the shape, rounded to whole bytes; empty if the dtype is unknown.
std::optional<index_t> expected_bytes(const Entry& entry, const std::filesystem::path& path) {
  const std::optional<index_t> bits = stored_dtype_bits(entry.dtype);
  index_t total = bits.value_or(8);
  bool fits = true;
  for (const index_t extent : entry.shape) fits = fits && !__builtin_mul_overflow(total, extent, &total);
  require_file(fits, path, kFunction, "the size of a tensor must fit in 63 bits",
               {{"tensor", quote(entry.name)}, {"dtype", quote(entry.dtype)}, {"shape", text_of(entry.shape)}});
  if (!bits) return {};
  require_file(total % 8 == 0, path, kFunction, "a tensor must fill whole bytes",
               {{"tensor", quote(entry.name)}, {"dtype", quote(entry.dtype)}, {"shape", text_of(entry.shape)}});
  return total / 8;
}

void check_entry(const Entry& entry, index_t data_bytes, const std::filesystem::path& path) {
  const index_t begin = entry.offsets[0], end = entry.offsets[1];
  require_file(begin <= end && end <= data_bytes, path, kFunction,
               "data_offsets must be in order and lie inside the file's data",
               {{"tensor", quote(entry.name)}, {"begin", begin}, {"end", end}, {"data_bytes", data_bytes}});
  const std::optional<index_t> expected = expected_bytes(entry, path);
  require_file(!expected || *expected == end - begin, path, kFunction,
               "the bytes of a tensor must be those of its shape",
               {{"tensor", quote(entry.name)},
                {"dtype", entry.dtype},
                {"shape", text_of(entry.shape)},
                {"shape_bytes", expected.value_or(0)},
                {"stored_bytes", end - begin}});
}

// Sorted by offset, the tensors must cover [0, data_bytes) without gaps or overlaps.
void check_tiling(std::vector<Entry>& entries, index_t data_bytes, const std::filesystem::path& path) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.offsets[0], e.offsets[1]); });
  index_t covered = 0;
  for (const Entry& entry : entries) {
    const index_t begin = entry.offsets[0];
    require_file(begin == covered, path, kFunction, "tensors must follow each other without gap or overlap",
                 {{"tensor", quote(entry.name)}, {"begin", begin}, {"end_of_the_one_before", covered}});
    covered = entry.offsets[1];
  }
  require_file(covered == data_bytes, path, kFunction, "tensors must cover the file's data to its end",
               {{"covered_bytes", covered}, {"data_bytes", data_bytes}});
}

std::string_view header_text(std::span<const std::byte> file, const std::filesystem::path& path) {
  const auto file_bytes = static_cast<index_t>(file.size());
  require_file(file_bytes >= kPrefixBytes, path, kFunction, "a file must begin with the 8 bytes of its header's length",
               {{"file_bytes", file_bytes}});
  std::uint64_t header_bytes = 0;
  for (int byte = 7; byte >= 0; --byte) header_bytes = header_bytes << 8 | static_cast<std::uint64_t>(file[byte]);
  require_file(header_bytes <= static_cast<std::uint64_t>(file_bytes - kPrefixBytes), path, kFunction,
               "header must end inside the file",
               {{"header_bytes", std::to_string(header_bytes)}, {"file_bytes", file_bytes}});
  require_file(header_bytes <= kMaxHeaderBytes, path, kFunction, "header must be at most 100,000,000 bytes",
               {{"header_bytes", std::to_string(header_bytes)}});
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kPrefixBytes, header_bytes);
  require_file(text.starts_with('{'), path, kFunction, "header must begin with {",
               {{"first_byte", text.empty() ? -1 : static_cast<int>(static_cast<unsigned char>(text[0]))}});
  require_no_nul(text, path, kFunction);
  return text;
}

}  // namespace

std::optional<index_t> stored_dtype_bits(std::string_view dtype) {
  const auto found = std::ranges::find(kStoredDTypes, dtype, &StoredDType::name);
  return found == std::end(kStoredDTypes) ? std::nullopt : std::optional(found->bits);
}

std::string_view stored_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::f64: return "F64";
    case DType::bf16: return "BF16";
    case DType::f16: return "F16";
    case DType::boolean: return "BOOL";
    case DType::i64: return "I64";
  }
  return "?";
}

SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path) {
  const std::string_view text = header_text(file, path);
  HeaderReader reader(path);
  nlohmann::json::sax_parse(text, &reader);

  const std::span<const std::byte> data = file.subspan(static_cast<std::size_t>(kPrefixBytes) + text.size());
  const auto data_bytes = static_cast<index_t>(data.size());
  for (const Entry& entry : reader.entries) check_entry(entry, data_bytes, path);
  check_tiling(reader.entries, data_bytes, path);

  SafetensorsContent content;
  content.metadata = std::move(reader.metadata);
  for (Entry& entry : reader.entries) {
    const index_t begin = entry.offsets[0], end = entry.offsets[1];
    StoredTensor tensor{std::move(entry.dtype), std::move(entry.shape), data.subspan(begin, end - begin)};
    const auto [place, fresh] = content.tensors.try_emplace(std::move(entry.name), std::move(tensor));
    require_file(fresh, path, kFunction, "a tensor must stand once", {{"tensor", quote(place->first)}});
  }
  return content;
}

}  // namespace multihead
