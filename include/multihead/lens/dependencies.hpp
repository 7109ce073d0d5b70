// Heads that follow a dependency relation: from a word to the word it depends on, or back.
//
//   word map   W[u,v] = mean over pieces i of u of  sum over pieces j of v of A[i,j]     Clark et al. 2019, section 4
//
//   guess      the word v != u with the largest W[u,v]; special tokens are no words
//
//   accuracy   share of instances whose guess is right; baseline: u + k, for the best k
//
// The head and k are chosen on the sentences with even numbers, from 0, and judged on the others: the best of many
// heads is flattered by the sentences it was chosen on.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "multihead/lens.hpp"
#include "multihead/lens/bootstrap.hpp"
#include "multihead/lens/conllu.hpp"
#include "multihead/lens/observe.hpp"

namespace multihead::lens {

/// @param words  [T] the word of each token; unset = none
/// @return [num_words, num_words]; rows and columns of words without a token are 0
/// @throws ShapeError  if extents disagree or a word is not in [0, num_words)
MULTIHEAD_API Tensor<float, 2> word_map(HeadMap probs, std::span<const std::optional<index_t>> words,
                                        index_t num_words);

enum class Direction : std::uint8_t {
  to_head,       ///< from the dependent; one instance a word
  to_dependent,  ///< from the governing word to any dependent of this relation; one instance a word that has one
};

struct Relation {
  std::string relation;  ///< "nsubj", or "all": every relation but punct and root
  Direction direction = Direction::to_head;
  LayerHead head;                         ///< the best on the sentences to choose on
  double accuracy = 0, baseline = 0;      ///< on the other sentences
  index_t baseline_offset = 0;            ///< k, in words
  index_t instances = 0;                  ///< of the other sentences
  std::optional<Interval> interval = {};  ///< 95 % of accuracy - baseline, sentences drawn again with replacement
  /// accuracy - baseline >= 0.1 (Voita et al. 2019), interval above 0, at least 100 instances.
  bool passed = false;
};

struct RelationOptions {
  std::uint64_t seed = 1;
  std::function<void(index_t done)> progress = {};  ///< sentences
  Executor* threads = nullptr;
};

/// Both directions of every relation that has an instance in both halves, by name; "all" comes first.
/// @throws as Encoder::forward and Tokenizer::encode
/// Cost  one forward over the sentences. Memory  the maps of a few sentences.
MULTIHEAD_API std::vector<Relation> judge_relations(const Encoder& encoder, const Tokenizer& tokenizer,
                                                    std::span<const GoldSentence> sentences, index_t max_tokens,
                                                    const RelationOptions& options = {});

}  // namespace multihead::lens
