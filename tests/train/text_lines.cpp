// Lines of texts: where they end, and what is refused.
#include "multihead/train/text_lines.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/error_text.hpp"

namespace multihead::test {
namespace {

using train::TextLines;
using Lines = std::vector<std::string_view>;

void expect_lines(std::string text, const Lines& expected) {
  const TextLines lines(std::move(text), "t");
  EXPECT_EQ(lines.lines(), expected);
}

TEST(TextLines, OnlyTheLineFeedEndsALine) {
  expect_lines("a\nb\n", {"a", "b"});
  expect_lines("a\nb", {"a", "b"});
  expect_lines("\n\na", {"", "", "a"});
  expect_lines("", {});
  expect_lines("a\r\nb\u2028c\u0085d\fe\rf\n", {"a\r", "b\u2028c\u0085d\fe\rf"});
}

TEST(TextLines, ACopyKeepsTheText) {
  std::optional<TextLines> first(TextLines(std::string(100, 'x') + "\ny", "t"));
  const TextLines copy = *first;
  first.reset();
  EXPECT_EQ(copy[1], "y");
}

TEST(TextLines, WhatCannotBeReadIsRefused) {
  EXPECT_EQ(error_of<CheckpointError>([] { TextLines::read("/nowhere/x"); }),
            "read_text: the file must be readable, got reason=No such file or directory (\"/nowhere/x\")");
  EXPECT_EQ(error_of<CheckpointError>([] { TextLines::read("/"); }),
            "read_text: the file must be readable, got reason=Is a directory (\"/\")");
  EXPECT_EQ(error_of<CheckpointError>([] { TextLines("gut\n\nfr\xFCh\n", "a.de"); }),
            "read_text: a text must be UTF-8, got line=3, byte=0xFC, position=2 (\"a.de\")");
}

}  // namespace
}  // namespace multihead::test
