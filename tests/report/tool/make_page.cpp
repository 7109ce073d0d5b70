// Writes a page of made-up maps: make_page CASE FILE [TOKENS]. tests/report/test_*.py open it in a browser and knows
// the same formulas. Every case is made without a model, so that what is tested is the page alone.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
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

std::string utf8(std::uint32_t c) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
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

/// One character of each kind that cannot be seen, and what must stay as it is.
Page unseen() {
  Page page;
  page.report.title = "unseen\u202e";
  page.report.text = "a text\u2066 with a\nline end";
  page.report.notes = {"a note\u200b"};
  for (const char* text : {"a\u0001b",    "\u0085",  "\u007f",
                           "\u00a0",      "x\u00ad", "\u034f",
                           "\u061c",      "\u115f",  "\u180e",
                           "\u200b",      "\u200d",  "\u202a",
                           "\u202e",      "\u2066",  "\u2069",
                           "\u2028",      "\u2800",  "\u3000",
                           "\u3164",      "\ufe0f",  "\ufeff",
                           "\U000e0041",  "\ue000",  "\ufffe",
                           "\t",          " ",       "",
                           "👩‍🍳", "❤️",       "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
                           "👩\u200d",    "é",       "\u0301",
                           "שלום"}) {
    page.report.queries.tokens.push_back({.text = text});
  }
  add_layers(page, 1, 1);
  return page;
}

/// 14 layers, two of whose heads were removed: 0.0 and 3.1. The weights of layer 1 are all the same.
Page deep() {
  Page page = big(14, 4, 24);
  page.report.title = "deep";
  page.report.text = "The text that was read";
  page.report.model = "/models/deep";
  const auto& first = page.probs[0];
  page.report.layers[0] = first.view().slice(1, 1, 4);
  page.report.head_numbers.resize(14);
  page.report.head_numbers[0] = {1, 2, 3};
  page.report.layers[3] = page.probs[3].view().slice(1, 1, 4);
  page.report.head_numbers[3] = {0, 2, 3};
  auto& uniform = page.probs[1];
  for (index_t n = 0; n < uniform.size(); ++n) uniform.data()[n] = 1.0f / 24.0f;
  return page;
}

/// Ten heads over 512 tokens, too many weights for six decimals; every weight of the first is 1/512.
Page even() {
  Page page = big(1, 10, 512);
  page.report.title = "even";
  auto& probs = page.probs[0];
  for (index_t j = 0; j < 512; ++j) {
    for (index_t i = 0; i < 512; ++i) probs(0, 0, i, j) = 1.0f / 512.0f;
  }
  return page;
}

Page one() {
  Page page;
  page.report.title = "one";
  page.report.queries = tokens_of({"alone"});
  add_layers(page, 1, 1);
  return page;
}

/// One query; the keys are the lines of a file: code points in hex, apart by blanks.
Page listed(const std::string& file) {
  Page page;
  page.report.title = "listed";
  page.report.queries = tokens_of({"query"});
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    std::string text;
    for (std::uint32_t c = 0; numbers >> std::hex >> c;) text += utf8(c);
    page.report.keys.tokens.push_back({.text = text});
  }
  add_layers(page, 1, 1);
  return page;
}

Page page_of(const std::string& name, const std::string& file) {
  if (name == "words") return words();
  if (name == "cross") return cross();
  if (name == "hostile") return hostile();
  if (name == "wide") return wide();
  if (name == "four") return four();
  if (name == "medium") return big(6, 12, 24);
  if (name == "unseen") return unseen();
  if (name == "listed") return listed(file);
  if (name == "deep") return deep();
  if (name == "even") return even();
  if (name == "one") return one();
  if (name == "long") return big(1, 2, 400);
  if (name == "big72") return big(6, 12, 512);
  if (name == "big144") return big(12, 12, 512);
  throw multihead::Error("make_page: unknown case " + name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const Page page = page_of(argv[1], argc > 3 ? argv[3] : "");
    multihead::Threads threads;
    std::ofstream(argv[2], std::ios::binary) << multihead::attention_page(page.report, &threads);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
