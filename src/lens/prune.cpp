#include "multihead/lens/prune.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/require.hpp"
#include "core/splitmix64.hpp"
#include "multihead/lens/importance.hpp"

namespace multihead::lens {
namespace {

constexpr const char* kFunction = "prune_heads";

/// What the heads of a layer gave on the text, and what it was added to.
struct LayerMoments {
  std::vector<HeadProducts> products;
  std::vector<double> squared_input;  // sum over tokens of ||x||^2
};

LayerMoments gather(const Encoder& encoder, std::span<const Segment> text, Executor* threads) {
  LayerMoments moments{.products = make_head_products(encoder),
                       .squared_input = std::vector<double>(encoder.layers().size(), 0)};
  const Observer add = [&](const ObservedBatch& batch) {
    add_head_outputs(moments.products, batch);
    for (std::size_t l = 0; l < moments.squared_input.size(); ++l) {
      for (index_t b = 0; b < static_cast<index_t>(batch.segments.size()); ++b) {
        const TensorView<const float, 2> x = batch.hidden(b, static_cast<index_t>(l));
        for (index_t i = 0; i < x.shape(0); ++i) {
          for (index_t e = 0; e < x.shape(1); ++e) moments.squared_input[l] += double{x(i, e)} * x(i, e);
        }
      }
    }
  };
  observe(encoder, text, {{add}}, {.capture = {.hidden = true, .head_outputs = true}, .threads = threads});
  return moments;
}

/// A layer while heads are chosen from it.
struct Candidate {
  HeadRemoval removal;
  std::vector<double> scale;    // [H] from errors of the layer to costs that can be compared between layers
  std::vector<index_t> chosen;  // indices among the heads that it has
  std::vector<double> cost;     // [H] of one more; infinity for those that are chosen
};

/// F_h of all heads, layer by layer, on every second segment.
std::vector<double> expected_losses(const Encoder& encoder, std::span<const Segment> text,
                                    const PruneOptions& options) {
  std::vector<Segment> half;
  for (std::size_t n = 0; n < text.size(); n += 2) half.push_back(text[n]);
  const Importance importance = head_importance(
      encoder, half,
      {.pooling = options.pooling, .ablations = {}, .seed = options.seed, .progress = {}, .threads = options.threads});
  std::vector<double> losses;
  for (index_t n = 0; n < importance.fisher.shape(0); ++n) losses.push_back(importance.fisher(n, n));
  return losses;
}

class Choice {
 public:
  Choice(const Encoder& encoder, std::span<const Segment> text, const PruneOptions& options)
      : encoder_(encoder), options_(options), state_(options.seed) {
    const LayerMoments moments = gather(encoder, text, options.threads);
    const bool by_loss = options.selection == Selection::loss;
    const std::vector<double> losses = by_loss ? expected_losses(encoder, text, options) : std::vector<double>();
    std::size_t first = 0;  // head of the layer, among all
    for (std::size_t l = 0; l < encoder.layers().size(); ++l) {
      const nn::MultiHeadAttention<float>& layer = encoder.layers()[l].attention;
      const auto num_heads = static_cast<std::size_t>(layer.num_heads());
      layers_.emplace_back();
      if (num_heads == 0) continue;
      const double tokens = static_cast<double>(moments.products[l].num_tokens());
      Candidate& candidate = layers_.back().emplace(
          Candidate{.removal = HeadRemoval(layer, moments.products[l], options.ridge),
                    .scale = std::vector<double>(num_heads, tokens / std::max(moments.squared_input[l], 1e-300)),
                    .chosen = {},
                    .cost = std::vector<double>(num_heads)});
      for (std::size_t h = 0; by_loss && h < num_heads; ++h) {
        const double written = candidate.removal.error({{static_cast<index_t>(h)}}, Compensation::none);
        candidate.scale[h] = written > 0 ? losses[first + h] / written : 0;
      }
      first += num_heads;
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) estimate(l);
  }

  LayerHead next() {
    LayerHead best{.layer = -1, .head = -1};
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (!layers_[l] || !may_lose_one(*layers_[l])) continue;
      for (std::size_t h = 0; h < layers_[l]->cost.size(); ++h) {
        if (layers_[l]->cost[h] >= least) continue;
        least = layers_[l]->cost[h];
        best = {static_cast<index_t>(l), static_cast<index_t>(h)};
      }
    }
    const auto l = static_cast<std::size_t>(best.layer);
    layers_[l]->chosen.push_back(best.head);
    estimate(l);
    return {best.layer, encoder_.layers()[l].attention.heads().original_heads[static_cast<std::size_t>(best.head)]};
  }

  const std::vector<std::optional<Candidate>>& layers() const { return layers_; }

 private:
  bool may_lose_one(const Candidate& layer) const {
    const std::size_t kept = options_.allow_empty_layers ? 0 : 1;
    return layer.chosen.size() + kept < layer.cost.size();
  }

  void estimate(std::size_t l) {
    if (!layers_[l]) return;
    Candidate& layer = *layers_[l];
    const auto is_chosen = [&](index_t h) { return std::ranges::find(layer.chosen, h) != layer.chosen.end(); };
    const bool costs_more = options_.selection == Selection::error || options_.selection == Selection::loss;
    const double now = costs_more ? layer.removal.error(layer.chosen, options_.compensation) : 0;
    if (options_.selection == Selection::random) {
      for (double& cost : layer.cost) cost = static_cast<double>(splitmix64(state_ += kSplitMix64Step) >> 11);
    }
    run_tasks(options_.threads, static_cast<index_t>(layer.cost.size()), [&](index_t h, int) {
      double& cost = layer.cost[static_cast<std::size_t>(h)];
      if (is_chosen(h)) {
        cost = std::numeric_limits<double>::infinity();
      } else if (costs_more) {
        std::vector<index_t> with = layer.chosen;
        with.push_back(h);
        cost = (layer.removal.error(with, options_.compensation) - now) * layer.scale[static_cast<std::size_t>(h)];
      } else if (options_.selection == Selection::output) {
        cost = layer.removal.error({{h}}, Compensation::none) * layer.scale[static_cast<std::size_t>(h)];
      }
    });
  }

  const Encoder& encoder_;
  const PruneOptions& options_;
  std::vector<std::optional<Candidate>> layers_;  // none: no heads left
  std::uint64_t state_;
};

void apply(nn::MultiHeadAttention<float>& layer, const Candidate& candidate, Compensation compensation) {
  if (candidate.chosen.empty()) return;
  OutputWeights weights = candidate.removal.weights(candidate.chosen, compensation);
  std::vector<index_t> originals;
  for (const index_t h : candidate.chosen) {
    originals.push_back(layer.heads().original_heads[static_cast<std::size_t>(h)]);
  }
  layer.remove_heads(originals, nn::RemoveAll::allow);
  layer.parameters().w_o = std::move(weights.w_o);
  if (weights.b_o.data() != nullptr) layer.parameters().b_o = std::move(weights.b_o);
}

}  // namespace

index_t num_removable_heads(const Encoder& encoder, bool allow_empty_layers) {
  index_t count = 0;
  for (const EncoderLayer& layer : encoder.layers()) {
    count += std::max<index_t>(layer.attention.num_heads() - (allow_empty_layers ? 0 : 1), 0);
  }
  return count;
}

std::vector<LayerHead> prune_heads(Encoder& encoder, std::span<const Segment> text, index_t count,
                                   const PruneOptions& options) {
  const index_t most = num_removable_heads(encoder, options.allow_empty_layers);
  require(count >= 0 && count <= most, kFunction, "count must be in [0, num_removable_heads]",
          {{"count", count}, {"num_removable_heads", most}});
  require(!text.empty(), kFunction, "text must have a segment", {{"segments", text.size()}});
  Choice choice(encoder, text, options);
  std::vector<LayerHead> removed;
  for (index_t n = 0; n < count; ++n) removed.push_back(choice.next());
  for (std::size_t l = 0; l < choice.layers().size(); ++l) {
    if (choice.layers()[l]) apply(encoder.layers()[l].attention, *choice.layers()[l], options.compensation);
  }
  return removed;
}

}  // namespace multihead::lens
