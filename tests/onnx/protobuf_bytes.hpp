// Protobuf messages made by hand, valid or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace multihead::protobuf {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string key(std::uint64_t field, int wire_type) {
  return varint(field << 3 | static_cast<std::uint64_t>(wire_type));
}

inline std::string integer(std::uint64_t field, std::int64_t value) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(value));
}

/// A string, a message or packed values.
inline std::string bytes(std::uint64_t field, std::string_view content) {
  return key(field, 2) + varint(content.size()) + std::string(content);
}

template <class T>
std::string raw(T value) {
  std::string result(sizeof value, '\0');
  std::memcpy(result.data(), &value, sizeof value);
  return result;
}

inline std::string number(std::uint64_t field, float value) { return key(field, 5) + raw(value); }

}  // namespace multihead::protobuf
