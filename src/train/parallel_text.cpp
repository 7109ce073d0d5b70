#include "multihead/train/parallel_text.hpp"

#include <algorithm>

#include "core/require.hpp"
#include "core/splitmix64.hpp"

namespace multihead::train {
namespace {

constexpr auto kFunction = "ParallelText";

index_t num_characters(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  const std::string_view text = line.substr(0, end == std::string_view::npos ? 0 : end + 1);
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

struct ParallelText::Reader {
  const Subwords& subwords;
  const ParallelOptions& options;

  void check() const {
    require(options.max_pieces >= 1, kFunction, "max_pieces must be at least 1", {{"max_pieces", options.max_pieces}});
  }
  bool fits(const std::vector<index_t>& pieces) const {
    return static_cast<index_t>(pieces.size()) <= options.max_pieces;
  }
};

ParallelText::ParallelText(const TextLines& source, const TextLines& target, const Subwords& subwords,
                           const ParallelOptions& options)
    : has_source_(true) {
  require_same_lines(kFunction, source, target);
  add({subwords, options}, &source, target);
}

ParallelText::ParallelText(const TextLines& text, const Subwords& subwords, const ParallelOptions& options)
    : has_source_(false) {
  add({subwords, options}, nullptr, text);
}

void ParallelText::add(const Reader& reader, const TextLines* source, const TextLines& target) {
  reader.check();
  const auto append = [&](Side& side, const std::vector<index_t>& pieces) {
    for (const index_t id : pieces) {
      side.ids.push_back(static_cast<std::int32_t>(id));
      counts_.unknown += id == kUnk;
    }
    side.offsets.push_back(static_cast<index_t>(side.ids.size()));
  };
  counts_.lines = target.size();
  for (index_t n = 0; n < target.size(); ++n) {
    std::vector<index_t> from, to = reader.subwords.encode(target[n]);
    if (source != nullptr) from = reader.subwords.encode((*source)[n]);
    if (to.empty() || (source != nullptr && from.empty())) {
      ++counts_.empty;
    } else if (!reader.fits(from) || !reader.fits(to)) {
      ++counts_.too_long;
    } else {
      append(source_, from), append(target_, to);
      lines_.push_back(n);
      characters_.push_back(num_characters(target[n]));
    }
  }
  counts_.kept = size();
  require(size() > 0, kFunction, "a pair of lines must be left to train on",
          {{"lines", counts_.lines},
           {"empty", counts_.empty},
           {"too_long", counts_.too_long},
           {"max_pieces", reader.options.max_pieces}});
}

std::uint64_t ParallelText::hash() const {
  std::uint64_t state = splitmix64(has_source_);
  const auto mix = [&](std::uint64_t value) { state = splitmix64(state ^ value); };
  for (const Side* side : {&source_, &target_}) {
    for (index_t n = 0; n < size(); ++n) {
      mix(side->of(n).size());
      for (const std::int32_t id : side->of(n)) mix(static_cast<std::uint64_t>(id));
    }
  }
  return state;
}

PackedBatch packed_batch(const ParallelText& text, std::span<const index_t> pairs) {
  PackedBatch batch{.pairs = {pairs.begin(), pairs.end()}, .source_offsets = {0}, .target_offsets = {0}};
  for (const index_t n : pairs) {
    require(n >= 0 && n < text.size(), "packed_batch", "pairs must be in [0, size)",
            {{"pair", n}, {"size", text.size()}});
    const auto source = text.source(n), target = text.target(n);
    if (text.has_source()) {
      batch.source_ids.insert(batch.source_ids.end(), source.begin(), source.end());
      batch.source_ids.push_back(kEos);
    }
    batch.target_in.push_back(kBos);
    batch.target_in.insert(batch.target_in.end(), target.begin(), target.end());
    batch.target_out.insert(batch.target_out.end(), target.begin(), target.end());
    batch.target_out.push_back(kEos);
    batch.source_offsets.push_back(static_cast<index_t>(batch.source_ids.size()));
    batch.target_offsets.push_back(static_cast<index_t>(batch.target_in.size()));
  }
  return batch;
}

}  // namespace multihead::train
