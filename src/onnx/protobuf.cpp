#include "onnx/protobuf.hpp"

#include <bit>
#include <cstring>

#include "core/file_error.hpp"

namespace multihead {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in the file");

constexpr std::uint32_t kVarint = 0, kEightBytes = 1, kLengthAndBytes = 2, kFourBytes = 5;

}  // namespace

std::optional<ProtobufField> ProtobufMessage::next() {
  if (at_ == message_.size()) return {};
  const std::size_t begin = offset();
  const std::uint64_t key = varint();
  ProtobufField field;
  require_file(key >> 3 > 0 && key >> 3 < (1u << 29), source_.path, source_.function,
               "a field's number must be in [1, 536870911]", {{"number", std::to_string(key >> 3)}, {"offset", begin}});
  field.number = static_cast<std::uint32_t>(key >> 3);
  field.wire_type = static_cast<std::uint32_t>(key & 7);
  switch (field.wire_type) {
    case kVarint: field.value = varint(); break;
    case kEightBytes: field.value = fixed(8); break;
    case kFourBytes: field.value = fixed(4); break;
    case kLengthAndBytes: field.bytes = take(varint()); break;
    default:
      require_file(false, source_.path, source_.function, "a field's wire type must be 0, 1, 2 or 5",
                   {{"field", index_t{field.number}}, {"wire_type", index_t{field.wire_type}}, {"offset", begin}});
  }
  return field;
}

std::uint64_t ProtobufMessage::varint() {
  const std::size_t begin = offset();
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && at_ < message_.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(message_[at_++]);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  require_file(false, source_.path, source_.function, "a varint must end within 10 bytes and inside its message",
               {{"offset", begin}});
  return 0;
}

std::uint64_t ProtobufMessage::fixed(std::size_t num_bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, take(num_bytes).data(), num_bytes);
  return value;
}

std::span<const std::byte> ProtobufMessage::take(std::uint64_t num_bytes) {
  const std::size_t left = message_.size() - at_;
  require_file(num_bytes <= left, source_.path, source_.function, "a field must end inside its message",
               {{"field_bytes", std::to_string(num_bytes)}, {"bytes_left", left}, {"offset", offset()}});
  const auto result = message_.subspan(at_, num_bytes);
  at_ += num_bytes;
  return result;
}

void ProtobufMessage::require_wire_type(const ProtobufField& field, std::uint32_t wire_type) const {
  require_file(field.wire_type == wire_type, source_.path, source_.function,
               "a field must have the wire type of its schema",
               {{"field", index_t{field.number}},
                {"wire_type", index_t{field.wire_type}},
                {"expected", index_t{wire_type}},
                {"end_offset", offset()}});
}

std::int64_t ProtobufMessage::integer(const ProtobufField& field) const {
  require_wire_type(field, kVarint);
  return static_cast<std::int64_t>(field.value);
}

float ProtobufMessage::number(const ProtobufField& field) const {
  require_wire_type(field, kFourBytes);
  return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
}

std::span<const std::byte> ProtobufMessage::bytes(const ProtobufField& field) const {
  require_wire_type(field, kLengthAndBytes);
  return field.bytes;
}

std::string ProtobufMessage::text(const ProtobufField& field) const {
  const auto content = bytes(field);
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

ProtobufMessage ProtobufMessage::message(const ProtobufField& field) const { return {source_, bytes(field)}; }

void ProtobufMessage::append_integers(const ProtobufField& field, std::vector<std::int64_t>& values) const {
  if (field.wire_type != kLengthAndBytes) {
    values.push_back(integer(field));
    return;
  }
  ProtobufMessage packed = message(field);
  while (packed.at_ < packed.message_.size()) values.push_back(static_cast<std::int64_t>(packed.varint()));
}

void ProtobufMessage::append_floats(const ProtobufField& field, std::vector<float>& values) const {
  if (field.wire_type != kLengthAndBytes) {
    values.push_back(number(field));
    return;
  }
  ProtobufMessage packed = message(field);
  while (packed.at_ < packed.message_.size()) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(packed.fixed(4))));
  }
}

void ProtobufMessage::append_doubles(const ProtobufField& field, std::vector<double>& values) const {
  if (field.wire_type != kLengthAndBytes) {
    require_wire_type(field, kEightBytes);
    values.push_back(std::bit_cast<double>(field.value));
    return;
  }
  ProtobufMessage packed = message(field);
  while (packed.at_ < packed.message_.size()) values.push_back(std::bit_cast<double>(packed.fixed(8)));
}

}  // namespace multihead
