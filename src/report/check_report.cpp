#include "report/check_report.hpp"

#include "core/require.hpp"

namespace multihead {
namespace {

constexpr auto kName = "attention_page";

void check_words(const ReportTokens& side, const char* name) {
  const auto num_words = static_cast<index_t>(side.words.size());
  for (const ReportToken& token : side.tokens) {
    require(token.word >= -1 && token.word < num_words, kName, "a token's word must be one of the words, or -1",
            {{"word", token.word}, {"num_words", num_words}, {"side", name}});
  }
}

void check_layer(const AttentionReport& report, index_t layer) {
  const TensorView<const float, 4>& probs = report.layers[static_cast<std::size_t>(layer)];
  const auto num_queries = report.queries.tokens.size();
  const auto num_keys = key_tokens(report).tokens.size();
  require(probs.shape(0) == 1, kName, "a page shows one sequence, so batch must be 1",
          {{"batch", probs.shape(0)}, {"layer", layer}}, "make a page for each sequence");
  require(probs.shape(1) >= 1, kName, "a layer must have a head", {{"num_heads", probs.shape(1)}, {"layer", layer}});
  require(probs.shape(2) == static_cast<index_t>(num_queries), kName, "probs must have one row for each query token",
          {{"seqlen_q", probs.shape(2)}, {"query_tokens", num_queries}, {"layer", layer}});
  require(probs.shape(3) == static_cast<index_t>(num_keys), kName, "probs must have one column for each key token",
          {{"seqlen_kv", probs.shape(3)}, {"key_tokens", num_keys}, {"layer", layer}});
}

void check_numbers(const AttentionReport& report, index_t layer) {
  const std::vector<index_t>* numbers = numbers_of(report, static_cast<std::size_t>(layer));
  if (!numbers) return;
  const index_t num_heads = report.layers[static_cast<std::size_t>(layer)].shape(1);
  require(static_cast<index_t>(numbers->size()) == num_heads, kName, "head_numbers must have one number for each head",
          {{"head_numbers", numbers->size()}, {"num_heads", num_heads}, {"layer", layer}});
  index_t before = -1;
  for (const index_t number : *numbers) {
    require(number > before, kName, "head_numbers must be 0 or more and rise within a layer",
            {{"number", number}, {"before", before}, {"layer", layer}});
    before = number;
  }
}

/// A NaN fails the comparison too.
void check_probs(const AttentionReport& report, index_t layer) {
  const TensorView<const float, 4>& probs = report.layers[static_cast<std::size_t>(layer)];
  for (index_t h = 0; h < probs.shape(1); ++h) {
    for (index_t i = 0; i < probs.shape(2); ++i) {
      for (index_t j = 0; j < probs.shape(3); ++j) {
        const float p = probs(0, h, i, j);
        if (p >= 0.0f && p <= 1.0001f) continue;  // the names of an error are not made for each of millions
        require(false, kName, "probs must lie in [0, 1]",
                {{"prob", static_cast<double>(p)}, {"layer", layer}, {"h", h}, {"i", i}, {"j", j}});
      }
    }
  }
}

}  // namespace

const ReportTokens& key_tokens(const AttentionReport& report) {
  return report.keys.tokens.empty() ? report.queries : report.keys;
}

const std::vector<index_t>* numbers_of(const AttentionReport& report, std::size_t layer) {
  const bool given = layer < report.head_numbers.size() && !report.head_numbers[layer].empty();
  return given ? &report.head_numbers[layer] : nullptr;
}

void check_report(const AttentionReport& report) {
  const auto num_layers = static_cast<index_t>(report.layers.size());
  require(num_layers >= 1, kName, "a page needs a layer", {{"num_layers", num_layers}});
  require(!report.queries.tokens.empty(), kName, "a page needs a token", {{"query_tokens", 0}});
  check_words(report.queries, "queries");
  check_words(report.keys, "keys");
  for (index_t layer = 0; layer < num_layers; ++layer) check_layer(report, layer);
  for (index_t layer = 0; layer < num_layers; ++layer) check_numbers(report, layer);
  require(report.first_layer >= 0 && report.first_layer < num_layers, kName, "first_layer must be a layer",
          {{"first_layer", report.first_layer}, {"num_layers", num_layers}});
  const index_t num_heads = report.layers[static_cast<std::size_t>(report.first_layer)].shape(1);
  require(report.first_head >= 0 && report.first_head < num_heads, kName, "first_head must be a head of first_layer",
          {{"first_head", report.first_head}, {"num_heads", num_heads}, {"first_layer", report.first_layer}});
  for (index_t layer = 0; layer < num_layers; ++layer) check_probs(report, layer);
}

}  // namespace multihead
