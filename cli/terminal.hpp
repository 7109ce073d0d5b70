// Text on a terminal: columns that line up whatever the script, colours where they are wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace multihead::cli {

/// Columns that a terminal gives a text: per grapheme cluster (UAX #29) 2 if it is East Asian wide or full-width
/// (UAX #11) or an emoji presentation, else 1; none for what only joins or formats.
int display_width(std::string_view utf8);

/// @throws Error  if the text is not UTF-8; names the first wrong byte and its position
void check_utf8(std::string_view text);

/// The grapheme clusters of a text: what a reader takes for one character.
std::vector<std::string> graphemes(std::string_view utf8);

/// Controls, direction marks and line breaks by name ("U+202E"), bytes that are not UTF-8 in hexadecimal ("\xE9"), so
/// that no token moves the cursor or turns its neighbours.
std::string printable(std::string_view utf8);

/// The text of a JSON document with the same characters as escape sequences ("\u202e"), which parse to themselves.
std::string escaped_json(std::string_view json);

/// printable() text cut with "…" to at most `width` columns.
std::string fitted(std::string_view utf8, int width);

/// fitted() and filled up with spaces to exactly `width` columns.
std::string left(std::string_view utf8, int width);
std::string right(std::string_view utf8, int width);

/// printable() text in lines of at most `width` columns, broken at spaces where it can be, else inside words.
std::vector<std::string> wrapped(std::string_view utf8, int width);

/// The same as one text: each line behind `indent` spaces, between two escape sequences of a Style.
std::string paragraph(std::string_view utf8, int width, int indent = 0, const std::string& before = {},
                      const std::string& after = {});

/// The columns of a table row that are taken, of as many as there are.
struct TableWidth {
  int width, used;

  /// Whether so many more fit; then they are taken.
  bool take(int columns) {
    const bool fits = used + columns <= width;
    if (fits) used += columns;
    return fits;
  }
};

/// "▁▂▃▄▅▆▇█" or " ": a bar of a share in [0, 1].
std::string bar(double share);

/// Escape sequences, empty where stdout is no terminal, NO_COLOR is set, or TERM is "dumb".
struct Style {
  std::string bold, dim, accent, strong, off;

  static Style of_stdout();
};

/// Columns of the terminal, at least 20; 100 where stdout is no terminal.
int terminal_width();

}  // namespace multihead::cli
