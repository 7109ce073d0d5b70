// Writes a page of made-up maps: make_page CASE FILE. tests/report/test_page.py opens it in a browser and knows the
// same formulas. Every case is made without a model, so that what is tested is the page alone.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>

#include "core/splitmix64.hpp"
#include "multihead/report.hpp"
#include "multihead/tensor.hpp"

namespace {

using multihead::AttentionReport;
using multihead::index_t;
using multihead::ReportTokens;
using multihead::splitmix64;
using multihead::Tensor;

/// Owns the maps that a report views.
struct Page {
  AttentionReport report;
  std::vector<Tensor<float, 4>> probs;
};

/// Uniform in [0, 1), from the indices alone.
double noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return static_cast<double>(splitmix64((a * 1000003 + b) * 1000003 + c) >> 11) * 0x1p-53;
}

/// Softmax of a score: some heads look at one distance, some at the first token, all with noise by key and by pair. The
/// spread is such that 72 maps of 512 tokens pack about as well as those of all-MiniLM-L6-v2 do.
void fill(Tensor<float, 4>& probs, std::uint64_t layer) {
  const index_t seqlen_kv = probs.shape(3);
  for (index_t h = 0; h < probs.shape(1); ++h) {
    const auto id = layer * 131 + static_cast<std::uint64_t>(h);
    const auto distance = static_cast<index_t>(noise(id, 1, 1) * 5) - 2;
    const double to_distance = noise(id, 2, 2) < 0.4 ? 5.0 : 0.0;
    const double to_first = noise(id, 3, 3) < 0.4 ? 3.0 : 0.0;
    const double spread = 2.0 + 3.0 * noise(id, 4, 4);
    for (index_t i = 0; i < probs.shape(2); ++i) {
      double sum = 0.0;
      for (index_t j = 0; j < seqlen_kv; ++j) {
        const double of_pair = noise(id, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(j));
        const double of_key = noise(id, 5, static_cast<std::uint64_t>(j));
        const double score =
            spread * (of_pair + 2.0 * of_key) + (j == i + distance ? to_distance : 0.0) + (j == 0 ? to_first : 0.0);
        sum += probs(0, h, i, j) = static_cast<float>(std::exp(score));
      }
      for (index_t j = 0; j < seqlen_kv; ++j) probs(0, h, i, j) = static_cast<float>(probs(0, h, i, j) / sum);
    }
  }
}

ReportTokens tokens_of(std::initializer_list<const char*> texts) {
  ReportTokens side;
  for (const char* text : texts) side.tokens.push_back({.text = text});
  return side;
}

/// [CLS] w1 w2 .. [SEP]; every fifth word is of two pieces.
ReportTokens long_text(index_t count) {
  const char* const kWords[] = {"the",  "heads", "of",    "a",    "trained", "model",
                                "look", "at",    "words", "near", "and",     "far"};
  ReportTokens side;
  side.tokens.push_back({.text = "[CLS]", .special = true});
  for (index_t i = 1; i + 1 < count; ++i) {
    const bool second_piece = i % 5 == 0;
    if (second_piece) {
      side.tokens.push_back({.text = "##s", .word = static_cast<index_t>(side.words.size()) - 1});
      side.words.back() += "s";
    } else {
      side.words.push_back(kWords[i * 7 % 12]);
      side.tokens.push_back({.text = side.words.back(), .word = static_cast<index_t>(side.words.size()) - 1});
    }
  }
  side.tokens.push_back({.text = "[SEP]", .special = true});
  return side;
}

void add_layers(Page& page, index_t num_layers, index_t num_heads) {
  const auto& keys = page.report.keys.tokens.empty() ? page.report.queries : page.report.keys;
  for (index_t layer = 0; layer < num_layers; ++layer) {
    page.probs.emplace_back(Tensor<float, 4>({1, num_heads, static_cast<index_t>(page.report.queries.tokens.size()),
                                              static_cast<index_t>(keys.tokens.size())}));
    fill(page.probs.back(), static_cast<std::uint64_t>(layer));
  }
  for (auto& probs : page.probs) page.report.layers.push_back(probs.view());
}

/// [CLS] un ##believ ##able story [SEP]: "unbelievable" is a word of three pieces. probs[i,j] = (1+i+j) / row sum.
Page words() {
  Page page;
  page.report.title = "words";
  page.report.queries = tokens_of({"[CLS]", "un", "##believ", "##able", "story", "[SEP]"});
  page.report.queries.tokens.front().special = page.report.queries.tokens.back().special = true;
  page.report.queries.words = {"unbelievable", "story"};
  for (std::size_t i = 1; i <= 3; ++i) page.report.queries.tokens[i].word = 0;
  page.report.queries.tokens[4].word = 1;
  add_layers(page, 2, 3);
  for (index_t i = 0; i < 6; ++i) {
    for (index_t j = 0; j < 6; ++j)
      page.probs[0](0, 0, i, j) = static_cast<float>(1 + i + j) / static_cast<float>(21 + 6 * i);
  }
  return page;
}

/// 3 queries, 5 keys, probs[i,j] = (1+i+j) / row sum.
Page cross() {
  Page page;
  page.report.title = "cross";
  page.report.queries = tokens_of({"le", "chat", "dort"});
  page.report.keys = tokens_of({"the", "cat", "is", "asleep", "."});
  add_layers(page, 1, 2);
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 5; ++j)
      page.probs[0](0, 0, i, j) = static_cast<float>(1 + i + j) / static_cast<float>(15 + 5 * i);
  }
  return page;
}

Page hostile() {
  Page page;
  page.report.title = "</title><script>window.broken=1</script>";
  page.report.notes = {"<img src=x onerror='window.broken=2'>"};
  page.report.queries =
      tokens_of({"a<b<c", "&amp;", "</script><script>window.broken=3</script>", "\"quoted'", "back\\slash", "new\nline",
                 "\u200fright", "\u2028", "<!--", "{{script}}", "]]>", "\xff\xfe"});
  page.report.queries.words = {"</script><script>window.broken=4</script>"};
  page.report.queries.tokens[0].word = 0;
  add_layers(page, 1, 2);
  return page;
}

Page wide() {
  Page page;
  page.report.title = "wide";
  page.report.queries = tokens_of({"老白", "拿起", "他的", "锅铲", "👩‍🍳", "🇩🇪", "e\u0301te\u0301",
                                   "Donaudampfschifffahrtsgesellschaftskapitän", "שלום", "."});
  add_layers(page, 3, 4);
  return page;
}

Page four() {
  Page page;
  page.report.title = "four";
  page.report.queries = tokens_of({"老白", "拿起", "他的", "锅铲"});
  add_layers(page, 1, 8);
  return page;
}

Page big(index_t num_layers, index_t num_heads, index_t seqlen) {
  Page page;
  page.report.title = "big";
  page.report.queries = long_text(seqlen);
  add_layers(page, num_layers, num_heads);
  return page;
}

Page page_of(const std::string& name) {
  if (name == "words") return words();
  if (name == "cross") return cross();
  if (name == "hostile") return hostile();
  if (name == "wide") return wide();
  if (name == "four") return four();
  if (name == "medium") return big(6, 12, 24);
  if (name == "big72") return big(6, 12, 512);
  if (name == "big144") return big(12, 12, 512);
  throw multihead::Error("make_page: unknown case " + name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const Page page = page_of(argv[1]);
    multihead::Threads threads;
    std::ofstream(argv[2], std::ios::binary) << multihead::attention_page(page.report, &threads);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
