// The protobuf wire format, read in place: a message is a sequence of fields, each a key and a value.
//
//   key = number << 3 | wire type        0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
//
// A reader of our own because ONNX files need a dozen fields of it: the format is these four wire types, while the
// public library would bring a code generator into the build and a shared library beside the command. Every length is
// checked against the bytes that are there before it is used; nothing is allocated here, and nothing recurses.
//
// Source: protobuf.dev, "Encoding".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace multihead {

/// The file that is read and the function that reads it, for error texts.
struct ProtobufSource {
  std::filesystem::path path;
  std::string_view function;
  std::span<const std::byte> bytes;
};

struct ProtobufField {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;
  std::uint64_t value = 0;                // wire types 0, 1 and 5
  std::span<const std::byte> bytes = {};  // wire type 2
};

class ProtobufMessage {
 public:
  /// `message` lies in source.bytes; `source` outlives the object.
  ProtobufMessage(const ProtobufSource& source, std::span<const std::byte> message)
      : source_(source), message_(message) {}

  /// The next field, or nothing at the message's end.
  /// @throws CheckpointError  if the message is damaged
  std::optional<ProtobufField> next();

  // The value of a field that must have the kind asked for.
  // @throws CheckpointError  if its wire type is another
  std::int64_t integer(const ProtobufField& field) const;
  float number(const ProtobufField& field) const;
  std::string text(const ProtobufField& field) const;
  ProtobufMessage message(const ProtobufField& field) const;
  std::span<const std::byte> bytes(const ProtobufField& field) const;

  // Appends the values of a repeated field, packed in one field or one each.
  void append_integers(const ProtobufField& field, std::vector<std::int64_t>& values) const;
  void append_floats(const ProtobufField& field, std::vector<float>& values) const;
  void append_doubles(const ProtobufField& field, std::vector<double>& values) const;

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t num_bytes);
  std::span<const std::byte> take(std::uint64_t num_bytes);
  void require_wire_type(const ProtobufField& field, std::uint32_t wire_type) const;
  std::size_t offset() const { return static_cast<std::size_t>(message_.data() - source_.bytes.data()) + at_; }

  const ProtobufSource& source_;
  std::span<const std::byte> message_;
  std::size_t at_ = 0;
};

}  // namespace multihead
