#include "multihead/lens/dependencies.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/require.hpp"

namespace multihead::lens {
namespace {

constexpr double kGain = 0.1;  // Voita et al. 2019, section 5.2
constexpr index_t kFewestInstances = 100;
constexpr index_t kFarthest = 20;  // words; a fixed offset beyond that is never the best
constexpr auto kAll = "all";

/// A word to look from and the words that are right.
struct Instance {
  std::size_t kind = 0;  // relation and direction
  index_t query = 0;
  std::vector<index_t> targets;

  bool is_right(index_t word) const { return std::ranges::find(targets, word) != targets.end(); }
};

/// Kinds in the order of the result.
class Kinds {
 public:
  explicit Kinds(std::span<const GoldSentence> sentences) {
    add(kAll);
    std::map<std::string, int> names;
    for (const GoldSentence& sentence : sentences) {
      for (const GoldWord& word : sentence.words) {
        if (word.head) names[word.relation];
      }
    }
    for (const auto& [name, unused] : names) add(name);
  }

  std::size_t size() const { return relations_.size(); }
  const Relation& operator[](std::size_t kind) const { return relations_[kind]; }
  std::size_t first_of(const std::string& relation) const { return numbers_.at(relation); }

 private:
  void add(const std::string& relation) {
    numbers_[relation] = relations_.size();
    for (const Direction direction : {Direction::to_head, Direction::to_dependent}) {
      relations_.push_back({.relation = relation, .direction = direction, .head = {}});
    }
  }

  std::vector<Relation> relations_;
  std::map<std::string, std::size_t> numbers_;
};

/// Words that lost their tokens to a cut, or never had one, are neither queries nor targets.
std::vector<Instance> instances_of(const GoldSentence& sentence, const Segment& segment, const Kinds& kinds) {
  std::vector<bool> has_token(sentence.words.size());
  for (const std::optional<index_t> word : segment.word_ids) {
    if (word) has_token[static_cast<std::size_t>(*word)] = true;
  }
  std::map<std::pair<std::size_t, index_t>, std::vector<index_t>> dependents;
  std::vector<Instance> instances;
  for (std::size_t u = 0; u < sentence.words.size(); ++u) {
    const GoldWord& word = sentence.words[u];
    if (!word.head || !has_token[u] || !has_token[static_cast<std::size_t>(*word.head)]) continue;
    const auto add = [&](const std::string& relation) {
      const std::size_t kind = kinds.first_of(relation);
      instances.push_back({.kind = kind, .query = static_cast<index_t>(u), .targets = {*word.head}});
      dependents[{kind + 1, *word.head}].push_back(static_cast<index_t>(u));
    };
    add(word.relation);
    if (word.relation != "punct") add(kAll);
  }
  for (auto& [key, words] : dependents) instances.push_back({.kind = key.first, .query = key.second, .targets = words});
  return instances;
}

/// The words of a sentence that have a token, and the number of each token's among them: maps are as large as the
/// tokens that were read, however long the sentence is.
struct WordsRead {
  std::vector<index_t> words;                    // ascending
  std::vector<std::optional<index_t>> word_ids;  // [T] index into words

  explicit WordsRead(const Segment& segment) : word_ids(segment.word_ids) {
    for (std::optional<index_t>& id : word_ids) {
      if (!id) continue;
      if (words.empty() || words.back() != *id) words.push_back(*id);
      id = static_cast<index_t>(words.size()) - 1;
    }
  }
};

/// What one head guesses for each word that was read.
class Guesses {
 public:
  Guesses(HeadMap probs, const WordsRead& read) : read_(read) {
    const Tensor<float, 2> map = word_map(probs, read.word_ids, static_cast<index_t>(read.words.size()));
    for (index_t u = 0; u < map.shape(0); ++u) {
      index_t best = -1;
      for (index_t v = 0; v < map.shape(1); ++v) {
        if (v != u && map(u, v) > (best < 0 ? 0.0f : map(u, best))) best = v;
      }
      guesses_.push_back(best);
    }
  }

  /// The other word with the largest weight; -1 where there is none.
  index_t operator()(index_t word) const {
    const auto at = std::ranges::lower_bound(read_.words, word) - read_.words.begin();
    const index_t guess = guesses_[static_cast<std::size_t>(at)];
    return guess < 0 ? guess : read_.words[static_cast<std::size_t>(guess)];
  }

 private:
  const WordsRead& read_;
  std::vector<index_t> guesses_;
};

class RelationPass {
 public:
  RelationPass(const Encoder& encoder, std::span<const GoldSentence> sentences, const Kinds& kinds,
               const RelationOptions& options)
      : encoder_(encoder), sentences_(sentences), kinds_(kinds), options_(options) {
    for (std::size_t layer = 0; layer < encoder.layers().size(); ++layer) {
      for (index_t h = 0; h < encoder.layers()[layer].attention.num_heads(); ++h) {
        heads_.push_back({static_cast<index_t>(layer), h});
      }
    }
    right_.resize(heads_.size(), std::vector<index_t>(kinds.size()));
    offsets_right_.resize(kinds.size(), std::vector<index_t>(2 * kFarthest + 1));
    num_chosen_on_.resize(kinds.size());
    best_.resize(kinds.size()), best_offset_.resize(kinds.size());
    sums_.resize(kinds.size());
  }

  /// Counts on the sentences to choose on, then what is best.
  void choose(std::span<const Segment> segments) {
    run(segments, 0, [&](std::size_t head, index_t, const std::vector<Instance>& instances, const Guesses& guess) {
      for (const Instance& each : instances) {
        if (each.is_right(guess(each.query))) ++right_[head][each.kind];
      }
    });
    for (std::size_t n = 0; n < segments.size(); ++n)
      count_offsets(instances_of(sentences_[2 * n], segments[n], kinds_));
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      for (std::size_t h = 1; h < heads_.size(); ++h) {
        if (right_[h][kind] > right_[best_[kind]][kind]) best_[kind] = h;
      }
      for (index_t k = 1; k <= kFarthest; ++k) {  // near ones first, before the word first
        for (const index_t offset : {-k, k}) {
          if (of_offset(kind, offset) > of_offset(kind, best_offset_[kind])) best_offset_[kind] = offset;
        }
      }
    }
  }

  void judge(std::span<const Segment> segments) {
    run(segments, 1,
        [&](std::size_t head, index_t sentence, const std::vector<Instance>& instances, const Guesses& guess) {
          for (const Instance& each : instances) {
            if (best_[each.kind] != head) continue;  // so no two heads write to one sum
            const double ours = each.is_right(guess(each.query)) ? 1 : 0;
            const double others = each.is_right(each.query + best_offset_[each.kind]) ? 1 : 0;
            Sums& sums = sums_[each.kind];
            sums.ours += ours, sums.others += others, ++sums.instances;
            sums.gain.add(sentence, {.mass = ours - others, .chance = 0, .count = 1});
          }
        });
  }

  std::vector<Relation> result(std::size_t num_judged) const {
    const Resamples resamples(static_cast<index_t>(num_judged), options_.seed);
    std::vector<Relation> result;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const Sums& sums = sums_[kind];
      if (sums.instances == 0 || num_chosen_on_[kind] == 0) continue;
      Relation& found = result.emplace_back(kinds_[kind]);
      found.head = heads_[best_[kind]];
      found.accuracy = sums.ours / static_cast<double>(sums.instances);
      found.baseline = sums.others / static_cast<double>(sums.instances);
      found.baseline_offset = best_offset_[kind];
      found.instances = sums.instances;
      found.interval = resamples.lift_interval(sums.gain);
      found.passed = found.accuracy - found.baseline >= kGain && found.interval && found.interval->low > 0 &&
                     found.instances >= kFewestInstances;
    }
    return result;
  }

 private:
  struct Sums {
    double ours = 0, others = 0;
    index_t instances = 0;
    BlockSums gain;
  };

  index_t of_offset(std::size_t kind, index_t offset) const {
    return offsets_right_[kind][static_cast<std::size_t>(offset + kFarthest)];
  }

  void count_offsets(const std::vector<Instance>& instances) {
    for (const Instance& each : instances) {
      ++num_chosen_on_[each.kind];
      for (const index_t target : each.targets) {
        const index_t offset = target - each.query;
        if (std::abs(offset) <= kFarthest) ++offsets_right_[each.kind][static_cast<std::size_t>(offset + kFarthest)];
      }
    }
  }

  /// use(head, number of the segment, instances, guess of each word); segment n is sentence 2 n + odd.
  template <class Use>
  void run(std::span<const Segment> segments, std::size_t odd, const Use& use) {
    const Observer look = [&](const ObservedBatch& batch) {
      std::vector<std::vector<Instance>> instances;
      std::vector<WordsRead> read;
      for (std::size_t b = 0; b < batch.segments.size(); ++b) {
        const std::size_t number = static_cast<std::size_t>(batch.first) + b;
        instances.push_back(instances_of(sentences_[2 * number + odd], batch.segments[b], kinds_));
        read.emplace_back(batch.segments[b]);
      }
      run_tasks(batch.threads, static_cast<index_t>(heads_.size()), [&](index_t n, int) {
        const LayerHead& head = heads_[static_cast<std::size_t>(n)];
        for (std::size_t b = 0; b < batch.segments.size(); ++b) {
          const auto at = static_cast<index_t>(b);
          use(static_cast<std::size_t>(n), batch.first + at, instances[b],
              Guesses(batch.map(at, head.layer, head.head), read[b]));
        }
      });
    };
    const index_t before = done_;
    observe(encoder_, segments, {&look, 1},
            {.capture = {.probs = true},
             .progress =
                 [&](index_t done) {
                   done_ = before + done;
                   if (options_.progress) options_.progress(done_);
                 },
             .threads = options_.threads});
  }

  const Encoder& encoder_;
  std::span<const GoldSentence> sentences_;
  const Kinds& kinds_;
  const RelationOptions& options_;
  std::vector<LayerHead> heads_;
  std::vector<std::vector<index_t>> right_;          // [head][kind]
  std::vector<std::vector<index_t>> offsets_right_;  // [kind][offset + kFarthest]
  std::vector<index_t> num_chosen_on_;               // [kind]
  std::vector<std::size_t> best_;
  std::vector<index_t> best_offset_;
  std::vector<Sums> sums_;
  index_t done_ = 0;
};

}  // namespace

Tensor<float, 2> word_map(HeadMap probs, std::span<const std::optional<index_t>> words, index_t num_words) {
  const auto tokens = static_cast<index_t>(words.size());
  require(probs.shape(0) == tokens && probs.shape(1) == tokens, "word_map",
          "probs must have a query and a key for each word id",
          {{"queries", probs.shape(0)}, {"keys", probs.shape(1)}, {"word_ids", tokens}});
  Tensor<float, 2> map({num_words, num_words});
  std::vector<float> pieces(static_cast<std::size_t>(num_words));
  for (const std::optional<index_t> word : words) {
    require(!word || (*word >= 0 && *word < num_words), "word_map", "a word must be in [0, num_words)",
            {{"word", word.value_or(0)}, {"num_words", num_words}});
    if (word) ++pieces[static_cast<std::size_t>(*word)];
  }
  for (index_t i = 0; i < tokens; ++i) {
    const std::optional<index_t> u = words[static_cast<std::size_t>(i)];
    for (index_t j = 0; u && j < tokens; ++j) {
      const std::optional<index_t> v = words[static_cast<std::size_t>(j)];
      if (v) map(*u, *v) += probs(i, j) / pieces[static_cast<std::size_t>(*u)];
    }
  }
  return map;
}

std::vector<Relation> judge_relations(const Encoder& encoder, const Tokenizer& tokenizer,
                                      std::span<const GoldSentence> sentences, index_t max_tokens,
                                      const RelationOptions& options) {
  std::array<std::vector<Segment>, 2> halves;
  for (std::size_t n = 0; n < sentences.size(); ++n) {
    halves[n % 2].push_back(gold_segment(tokenizer, sentences[n], max_tokens));
  }
  const Kinds kinds(sentences);
  RelationPass pass(encoder, sentences, kinds, options);
  pass.choose(halves[0]);
  pass.judge(halves[1]);
  return pass.result(halves[1].size());
}

}  // namespace multihead::lens
