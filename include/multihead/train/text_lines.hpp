// The lines of a text: separated by "\n" alone, so that line n of two files is the same pair for every program.
// U+2028, U+0085 and "\r" end no line; a "\n" at the very end begins none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"
#include "multihead/types.hpp"

namespace multihead::train {

/// Immutable and cheap to copy; the views live as long as any copy.
class MULTIHEAD_API TextLines {
 public:
  /// Reads a file or a pipe to its end.
  /// @throws CheckpointError  if it cannot be read, or is not UTF-8; the message names the line, byte and position
  static TextLines read(const std::filesystem::path& path);

  /// @param name  of the text in messages, such as "standard input"
  /// @throws CheckpointError  if it is not UTF-8
  TextLines(std::string text, std::string name);

  const std::string& name() const { return text_->name; }
  index_t size() const { return static_cast<index_t>(text_->lines.size()); }
  std::string_view operator[](index_t line) const { return text_->lines[static_cast<std::size_t>(line)]; }
  const std::vector<std::string_view>& lines() const& { return text_->lines; }
  const std::vector<std::string_view>& lines() const&& = delete;

 private:
  struct Text {
    std::string content, name;
    std::vector<std::string_view> lines;
  };
  std::shared_ptr<const Text> text_;
};

/// Two texts of which line n belongs to line n.
/// @throws ShapeError  "function: source and target must have the same number of lines, got ..."
MULTIHEAD_API void require_same_lines(std::string_view function, const TextLines& source, const TextLines& target);

}  // namespace multihead::train
