#include <algorithm>
#include <cstring>
#include <limits>

#include "core/file_error.hpp"
#include "onnx/proto.hpp"

namespace multihead {
namespace {

// Fields of TensorProto. A tensor's data are in `raw` or in the one typed field of its type.
enum Field : std::uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,  // also 8 and 16 bit integers, bool, and the bits of f16 and bf16
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,  // also u32
  kExternalData = 13,
  kDataLocation = 14
};

constexpr std::size_t kMostAxes = 16;  // no operator has more; keeps an error text short whatever the file says

struct TensorFields {
  std::string name;
  std::vector<std::int64_t> dims;
  std::int64_t data_type = 0;
  std::span<const std::byte> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;
  std::uint32_t integer_field = 0;
};

[[noreturn]] void unsupported(const ProtobufSource& source, std::string_view rule, std::initializer_list<Got> got) {
  throw UnsupportedError(error_text(source.function, rule, got) + " (" + quote(source.path.string()) + ")");
}

TensorFields read_fields(ProtobufMessage message, const ProtobufSource& source) {
  TensorFields tensor;
  while (const auto field = message.next()) {
    switch (field->number) {
      case kDims: message.append_integers(*field, tensor.dims); break;
      case kDataType: tensor.data_type = message.integer(*field); break;
      case kName: tensor.name = message.text(*field); break;
      case kRawData: tensor.raw = message.bytes(*field); break;
      case kFloatData: message.append_floats(*field, tensor.floats); break;
      case kDoubleData: message.append_doubles(*field, tensor.doubles); break;
      case kInt32Data:
      case kInt64Data:
      case kUint64Data:
        require_file(tensor.integer_field == 0 || tensor.integer_field == field->number, source.path, source.function,
                     "a tensor's data must be in one field",
                     {{"field", index_t{tensor.integer_field}}, {"other_field", index_t{field->number}}});
        tensor.integer_field = field->number;
        message.append_integers(*field, tensor.integers);
        break;
      case kDataLocation:
        if (message.integer(*field) == 0) break;
        [[fallthrough]];
      case kExternalData: unsupported(source, "data outside the file is not read", {{"tensor", quote(tensor.name)}});
      case kSegment:
      case kStringData: unsupported(source, "segments and strings are not read", {{"field", index_t{field->number}}});
      default: break;
    }
  }
  return tensor;
}

// Extents from a file may be anything: their product is taken with zeros as ones, so that no later sum or product of
// some of them can overflow either.
index_t checked_elements(const TensorFields& tensor, index_t element_bytes, const ProtobufSource& source) {
  index_t bytes = element_bytes;
  bool empty = false, fits = tensor.dims.size() <= kMostAxes;
  for (const std::int64_t extent : tensor.dims) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(bytes, std::max<index_t>(extent, 1), &bytes);
    empty = empty || extent == 0;
  }
  require_file(fits && bytes <= std::numeric_limits<index_t>::max() / 4, source.path, source.function,
               "there must be at most 16 extents, none negative, that fit in 61 bits of bytes",
               {{"tensor", quote(tensor.name)},
                {"rank", tensor.dims.size()},
                {"shape", shape_text(std::span(tensor.dims).first(std::min(tensor.dims.size(), kMostAxes)))}});
  return empty ? 0 : bytes / element_bytes;
}

std::uint32_t typed_field(OnnxType type) {
  switch (type) {
    case OnnxType::f32: return kFloatData;
    case OnnxType::f64: return kDoubleData;
    case OnnxType::i64: return kInt64Data;
    case OnnxType::u32:
    case OnnxType::u64: return kUint64Data;
    default: return kInt32Data;
  }
}

// Typed data as the bytes of the tensor: integers keep their low bytes, little end first.
std::vector<std::byte> typed_bytes(const TensorFields& tensor, OnnxType type) {
  const auto width = static_cast<std::size_t>(onnx_type_bytes(type));
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& values) {
    bytes.resize(values.size() * width);
    for (std::size_t n = 0; n < values.size(); ++n) std::memcpy(bytes.data() + n * width, &values[n], width);
  };
  switch (typed_field(type)) {
    case kFloatData: append(tensor.floats); break;
    case kDoubleData: append(tensor.doubles); break;
    default: append(tensor.integers);
  }
  return bytes;
}

}  // namespace

NamedOnnxTensor read_tensor_proto(ProtobufMessage message, const ProtobufSource& source) {
  TensorFields fields = read_fields(message, source);
  const auto type = static_cast<OnnxType>(fields.data_type);
  if (fields.data_type != static_cast<std::int32_t>(fields.data_type) || onnx_type_bytes(type) == 0) {
    unsupported(source, "the element type must be f16, bf16, f32, f64, bool or an integer of 8 to 64 bits",
                {{"tensor", quote(fields.name)}, {"data_type", index_t{fields.data_type}}});
  }
  const index_t elements = checked_elements(fields, onnx_type_bytes(type), source);

  const bool is_float = type == OnnxType::f32, is_double = type == OnnxType::f64;
  require_file((fields.floats.empty() || is_float) && (fields.doubles.empty() || is_double) &&
                   (fields.integers.empty() || fields.integer_field == typed_field(type)),
               source.path, source.function, "a tensor's data must be in the field of its type",
               {{"tensor", quote(fields.name)}, {"data_type", onnx_type_name(type)}});
  const std::vector<std::byte> typed = typed_bytes(fields, type);
  require_file(typed.empty() || fields.raw.empty(), source.path, source.function,
               "a tensor's data must be in one field",
               {{"tensor", quote(fields.name)}, {"raw_bytes", fields.raw.size()}, {"typed_bytes", typed.size()}});
  const std::span<const std::byte> data = typed.empty() ? fields.raw : std::span<const std::byte>(typed);
  const index_t want = elements * onnx_type_bytes(type);
  require_file(static_cast<index_t>(data.size()) == want, source.path, source.function,
               "a tensor's data must fill its shape",
               {{"tensor", quote(fields.name)},
                {"shape", shape_text(fields.dims)},
                {"data_type", onnx_type_name(type)},
                {"data_bytes", data.size()},
                {"expected", want}});

  NamedOnnxTensor result{std::move(fields.name), OnnxTensor(type, std::move(fields.dims))};
  std::byte* bytes = result.tensor.bytes();
  std::copy(data.begin(), data.end(), bytes);
  if (type == OnnxType::boolean) {  // any non-zero byte is true; a C++ bool may hold only 0 or 1
    std::transform(bytes, bytes + want, bytes, [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  }
  return result;
}

}  // namespace multihead
