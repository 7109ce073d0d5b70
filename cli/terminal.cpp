#include "terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "multihead/error.hpp"

namespace multihead::cli {
namespace {

constexpr UChar32 kEmojiSelector = 0xFE0F;  // asks for the colour picture, which is wide

bool is_wide(UChar32 c) {
  const int east_asian = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return east_asian == U_EA_WIDE || east_asian == U_EA_FULLWIDTH || u_hasBinaryProperty(c, UCHAR_EMOJI_PRESENTATION) ||
         c == kEmojiSelector;
}

bool has_no_width(UChar32 c) {
  const int8_t category = u_charType(c);
  return category == U_NON_SPACING_MARK || category == U_ENCLOSING_MARK || category == U_FORMAT_CHAR ||
         category == U_CONTROL_CHAR;
}

int cluster_width(const icu::UnicodeString& cluster) {
  int width = 0;
  for (int at = 0; at < cluster.length(); at = cluster.moveIndex32(at, 1)) {
    const UChar32 c = cluster.char32At(at);
    if (is_wide(c)) return 2;
    if (!has_no_width(c)) width = 1;
  }
  return width;
}

std::vector<icu::UnicodeString> clusters_of(std::string_view utf8) {
  const auto text = icu::UnicodeString::fromUTF8({utf8.data(), static_cast<int32_t>(utf8.size())});
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  std::vector<icu::UnicodeString> clusters;
  if (U_FAILURE(status)) return {text};
  breaks->setText(text);
  for (int begin = 0, end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next()) {
    clusters.emplace_back(text, begin, end - begin);
  }
  return clusters;
}

/// What must not reach a terminal as it is: controls, line separators, marks and isolates of direction.
bool is_unprintable(UChar32 c) {
  const int8_t category = u_charType(c);
  const bool joins = c == 0x200C || c == 0x200D;
  return category == U_CONTROL_CHAR || category == U_LINE_SEPARATOR || category == U_PARAGRAPH_SEPARATOR ||
         (category == U_FORMAT_CHAR && !joins);
}

}  // namespace

int display_width(std::string_view utf8) {
  int width = 0;
  for (const icu::UnicodeString& cluster : clusters_of(utf8)) width += cluster_width(cluster);
  return width;
}

void check_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  for (int32_t at = 0; at < static_cast<int32_t>(text.size());) {
    const int32_t begin = at;
    UChar32 c = 0;
    U8_NEXT(bytes, at, static_cast<int32_t>(text.size()), c);
    if (c >= 0) continue;
    throw Error(fmt::format("the text must be UTF-8, got byte 0x{:02x} at position {}", bytes[begin], begin));
  }
}

std::vector<std::string> graphemes(std::string_view utf8) {
  std::vector<std::string> result;
  for (const icu::UnicodeString& cluster : clusters_of(utf8)) cluster.toUTF8String(result.emplace_back());
  return result;
}

std::string printable(std::string_view utf8) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(utf8.data());
  std::string result;
  for (int32_t at = 0; at < static_cast<int32_t>(utf8.size());) {
    const int32_t begin = at;
    UChar32 c = 0;
    U8_NEXT(bytes, at, static_cast<int32_t>(utf8.size()), c);
    if (c < 0) {
      for (int32_t n = begin; n < at; ++n) result += fmt::format("\\x{:02X}", bytes[n]);
    } else if (is_unprintable(c)) {
      result += fmt::format("U+{:04X}", static_cast<unsigned>(c));
    } else {
      result += utf8.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin));
    }
  }
  return result;
}

std::string escaped_json(std::string_view json) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(json.data());
  std::string result;
  result.reserve(json.size());
  for (int32_t at = 0; at < static_cast<int32_t>(json.size());) {
    const int32_t begin = at;
    UChar32 c = 0;
    U8_NEXT(bytes, at, static_cast<int32_t>(json.size()), c);
    if (c < 0x20 || !is_unprintable(c)) {
      result += json.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin));
    } else if (c > 0xFFFF) {
      result +=
          fmt::format("\\u{:04x}\\u{:04x}", static_cast<unsigned>(U16_LEAD(c)), static_cast<unsigned>(U16_TRAIL(c)));
    } else {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  return result;
}

std::string fitted(std::string_view utf8, int width) {
  const std::string text = printable(utf8);
  if (display_width(text) <= width) return text;
  std::string result;
  int used = 0;
  for (const icu::UnicodeString& cluster : clusters_of(text)) {
    used += cluster_width(cluster);
    if (used > width - 1) break;
    cluster.toUTF8String(result);
  }
  return result + "…";
}

std::string left(std::string_view utf8, int width) {
  const std::string text = fitted(utf8, width);
  return text + std::string(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
}

std::string right(std::string_view utf8, int width) {
  const std::string text = fitted(utf8, width);
  return std::string(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ') + text;
}

std::vector<std::string> wrapped(std::string_view utf8, int width) {
  const std::string text = printable(utf8);
  std::vector<std::string> lines(1);
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const int word_width = display_width(word);
    at = end + 1;
    if (used > 0 && used + 1 + word_width <= width) {
      lines.back() += " " + word;
      used += 1 + word_width;
      continue;
    }
    if (used > 0) lines.emplace_back();
    used = 0;
    for (const icu::UnicodeString& cluster : clusters_of(word)) {
      const int more = cluster_width(cluster);
      if (used > 0 && used + more > width) {
        lines.emplace_back();
        used = 0;
      }
      cluster.toUTF8String(lines.back());
      used += more;
    }
  }
  return lines;
}

std::string paragraph(std::string_view utf8, int width, int indent, const std::string& before,
                      const std::string& after) {
  std::string text;
  for (const std::string& line : wrapped(utf8, width - indent)) {
    text += fmt::format("{:{}}{}{}{}\n", "", indent, before, line, after);
  }
  return text;
}

std::string bar(double share) {
  constexpr std::array kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double eighths = std::clamp(share, 0.0, 1.0) * 8.0;
  return kBars[static_cast<std::size_t>(std::lround(eighths))];
}

Style Style::of_stdout() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain = !isatty(STDOUT_FILENO) || (no_colour && *no_colour) || !term || std::string_view(term) == "dumb";
  if (plain) return {};
  return {.bold = "\033[1m", .dim = "\033[2m", .accent = "\033[34m", .strong = "\033[1;34m", .off = "\033[0m"};
}

int terminal_width() {
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return std::max<int>(20, size.ws_col);
}

}  // namespace multihead::cli
