// What attention_page refuses, and how it packs and escapes. What the page does is tested in a browser: test_page.py.
#include "multihead/report.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "multihead/tensor.hpp"
#include "report/escape.hpp"
#include "report/pack_map.hpp"
#include "support/error_text.hpp"

namespace multihead {
namespace {

ReportTokens tokens(int count) {
  ReportTokens side;
  for (int i = 0; i < count; ++i) side.tokens.push_back({.text = "t" + std::to_string(i)});
  return side;
}

std::string error_of(const AttentionReport& report) {
  return test::error_of([&] { attention_page(report); });
}

AttentionReport cross(const Tensor<float, 4>& probs, int queries, int keys) {
  return {.title = "t", .queries = tokens(queries), .keys = tokens(keys), .layers = {probs.view()}};
}

TEST(AttentionPage, TakesTwoListsOfTokens) {
  const Tensor<float, 4> probs({1, 2, 3, 5});
  EXPECT_EQ(error_of(cross(probs, 3, 5)), "nothing was thrown");
}

TEST(AttentionPage, SaysWhichListDoesNotMatch) {
  const Tensor<float, 4> probs({1, 2, 3, 5});
  EXPECT_EQ(error_of(cross(probs, 4, 5)),
            "attention_page: probs must have one row for each query token, got seqlen_q=3, query_tokens=4, layer=0");
  EXPECT_EQ(error_of(cross(probs, 3, 6)),
            "attention_page: probs must have one column for each key token, got seqlen_kv=5, key_tokens=6, layer=0");
  EXPECT_EQ(error_of(cross(probs, 3, 0)),
            "attention_page: probs must have one column for each key token, got seqlen_kv=5, key_tokens=3, layer=0");
}

TEST(AttentionPage, RefusesABatch) {
  const Tensor<float, 4> probs({2, 2, 3, 5});
  EXPECT_EQ(error_of(cross(probs, 3, 5)),
            "attention_page: a page shows one sequence, so batch must be 1, got batch=2, layer=0; make a page for each "
            "sequence");
}

TEST(AttentionPage, RefusesWhatIsNotThere) {
  const Tensor<float, 4> probs({1, 2, 3, 5});
  const Tensor<float, 4> no_head({1, 0, 3, 5});
  EXPECT_EQ(error_of({.title = "t", .queries = tokens(3), .layers = {}}),
            "attention_page: a page needs a layer, got num_layers=0");
  EXPECT_EQ(error_of(cross(probs, 0, 5)), "attention_page: a page needs a token, got query_tokens=0");
  EXPECT_EQ(error_of(cross(no_head, 3, 5)), "attention_page: a layer must have a head, got num_heads=0, layer=0");

  AttentionReport report = cross(probs, 3, 5);
  report.first_layer = 1;
  EXPECT_EQ(error_of(report), "attention_page: first_layer must be a layer, got first_layer=1, num_layers=1");
  report.first_layer = 0;
  report.first_head = 2;
  EXPECT_EQ(error_of(report),
            "attention_page: first_head must be a head of first_layer, got first_head=2, num_heads=2, first_layer=0");
  report.first_head = 0;
  report.keys.tokens[4].word = 0;
  EXPECT_EQ(error_of(report),
            "attention_page: a token's word must be one of the words, or -1, got word=0, num_words=0, side=keys");
}

TEST(AttentionPage, RefusesWhatIsNoProbability) {
  Tensor<float, 4> probs({1, 2, 3, 5});
  probs(0, 1, 2, 3) = 1.5f;
  EXPECT_EQ(error_of(cross(probs, 3, 5)),
            "attention_page: probs must lie in [0, 1], got prob=1.5, layer=0, h=1, i=2, j=3");
  probs(0, 1, 2, 3) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_of(cross(probs, 3, 5)),
            "attention_page: probs must lie in [0, 1], got prob=nan, layer=0, h=1, i=2, j=3");
}

TEST(AttentionPage, RefusesNumbersThatAreNotThoseOfTheHeads) {
  const Tensor<float, 4> probs({1, 2, 3, 5});
  AttentionReport report = cross(probs, 3, 5);
  report.head_numbers = {{4, 9}};
  EXPECT_EQ(error_of(report), "nothing was thrown");
  report.head_numbers = {{}};
  EXPECT_EQ(error_of(report), "nothing was thrown");
  report.head_numbers = {{0, 1, 2}};
  EXPECT_EQ(error_of(report),
            "attention_page: head_numbers must have one number for each head, got head_numbers=3, num_heads=2, layer=0");
  report.head_numbers = {{3, 3}};
  EXPECT_EQ(error_of(report),
            "attention_page: head_numbers must be 0 or more and rise within a layer, got number=3, before=3, layer=0");
  report.head_numbers = {{-1, 3}};
  EXPECT_EQ(error_of(report),
            "attention_page: head_numbers must be 0 or more and rise within a layer, got number=-1, before=-1, layer=0");
}

TEST(AttentionPage, IsTheSameForAnyThreads) {
  Tensor<float, 4> probs({1, 3, 4, 4});
  for (index_t n = 0; n < probs.size(); ++n) probs.data()[n] = static_cast<float>(n % 7) / 32.0f;
  const AttentionReport report{.title = "t", .queries = tokens(4), .layers = {probs.view()}};
  Threads threads(3);
  EXPECT_EQ(attention_page(report), attention_page(report, &threads));
}

TEST(AttentionPage, KeepsSixDecimalsUpToTwoMillionWeights) {
  const Tensor<float, 4> small({1, 2, 1000, 1000});
  const Tensor<float, 4> large({1, 2, 1000, 1001});
  EXPECT_EQ(report_digits({.title = "", .queries = {}, .layers = {small.view()}}), 6);
  EXPECT_EQ(report_digits({.title = "", .queries = {}, .layers = {large.view()}}), 4);
}

TEST(PackMap, AHeadWithoutLargeWeightsHasMoreDecimals) {
  Tensor<float, 2> probs({3, 4});
  const auto digits_up_to = [&](float most, int digits) {
    probs(2, 1) = most;
    return map_digits(probs.view(), digits);
  };
  EXPECT_EQ(digits_up_to(0.5f, 4), 4);
  EXPECT_EQ(digits_up_to(0.011f, 4), 4);
  EXPECT_EQ(digits_up_to(0.0099f, 4), 5);
  EXPECT_EQ(digits_up_to(0.0009f, 4), 6);
  EXPECT_EQ(digits_up_to(0.0f, 4), 6);
  EXPECT_EQ(digits_up_to(0.5f, 6), 6);
  EXPECT_EQ(digits_up_to(0.005f, 6), 6);
}

TEST(Base64, IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Escape, LeavesNothingThatAnHtmlParserActsOn) {
  EXPECT_EQ(escape_html("<a href='x'>\"&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;");
  EXPECT_EQ(json_for_script("</script>&\"\\\n\u2028\u00e9"),
            "\"\\u003c/script\\u003e\\u0026\\\"\\\\\\n\\u2028\\u00e9\"");
  EXPECT_EQ(json_for_script("\xff"), "\"\\ufffd\"");
}

}  // namespace
}  // namespace multihead
