// CoNLL-U files, word maps, and heads that follow a relation.
#include "multihead/lens/dependencies.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lens/small_model.hpp"
#include "support/error_text.hpp"

namespace multihead::lens {
namespace {

std::string row(const std::string& id, const std::string& form, const std::string& head, const std::string& relation,
                const std::string& misc = "_") {
  return id + "\t" + form + "\t_\t_\t_\t_\t" + head + "\t" + relation + "\t_\t" + misc + "\n";
}

TEST(Conllu, ReadsWordsRangesAndEmptyNodes) {
  const std::string file = "\xEF\xBB\xBF# text = ignored\r\n" + row("1-2", "don't", "_", "_") +
                           row("1", "do", "3", "aux") + row("2", "n't", "3", "advmod:neg") +
                           row("2.1", "ghost", "_", "_") + row("3", "go", "0", "root", "SpaceAfter=No|X=1") +
                           row("4", "!", "3", "punct") + "\n\n" + row("1-2", "du", "_", "_") +
                           row("1", "de", "2", "case") + row("2", "le", "0", "root");
  const std::vector<GoldSentence> found = read_conllu(file, "x.conllu");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "don't go!");
  EXPECT_EQ(found[0].line, 3);
  ASSERT_EQ(found[0].words.size(), 4u);
  EXPECT_EQ(found[0].words[0].head, std::optional<index_t>(2));
  EXPECT_EQ(found[0].words[0].span, (TextSpan{0, 2}));
  EXPECT_EQ(found[0].words[1].relation, "advmod");
  EXPECT_EQ(found[0].words[1].span, (TextSpan{2, 5}));
  EXPECT_FALSE(found[0].words[2].head);
  EXPECT_EQ(found[0].words[3].span, (TextSpan{8, 9}));
  EXPECT_EQ(found[1].text, "du");
  EXPECT_FALSE(found[1].words[0].span) << "the range is not written as its words";
}

std::string error_of_file(const std::string& file) {
  return test::error_of<CheckpointError>([&] { read_conllu(file, "x.conllu"); });
}

TEST(Conllu, NamesTheLineThatIsWrong) {
  EXPECT_EQ(error_of_file(""), "read_conllu: the file must hold a sentence, got lines=1 (\"x.conllu\")");
  EXPECT_EQ(error_of_file("# only\n\n"), "read_conllu: the file must hold a sentence, got lines=3 (\"x.conllu\")");
  EXPECT_EQ(error_of_file(std::string("1\tcat\0\xff", 7)),
            "read_conllu: the file must be UTF-8, got error_at_byte=6 (\"x.conllu\")");
  EXPECT_EQ(error_of_file("# x\n1 cat 0 root\n"),
            "read_conllu: a word must have 10 columns, separated by tabs, got columns=1, line=2 (\"x.conllu\")");
  EXPECT_EQ(error_of_file(row("1", "a", "0", "root") + row("3", "b", "1", "det")),
            "read_conllu: words must be numbered 1, 2, .., got id=\"3\", next=2, line=2 (\"x.conllu\")");
  EXPECT_EQ(error_of_file(row("x", "a", "0", "root")),
            "read_conllu: words must be numbered 1, 2, .., got id=\"x\", next=1, line=1 (\"x.conllu\")");
  for (const std::string head : {"_", "-1", "1", "99999999999999999999"}) {
    EXPECT_EQ(error_of_file(row("1", "a", head, "det")),
              "read_conllu: HEAD must be the number of another word, or 0, got HEAD=\"" + head +
                  "\", id=\"1\", line=1 (\"x.conllu\")");
  }
  EXPECT_EQ(
      error_of_file(row("1", "a", "0", "root") + row("2", "b", "3", "det")),
      "read_conllu: HEAD must be the number of a word of the sentence, got HEAD=3, words=2, line=2 (\"x.conllu\")");
  EXPECT_EQ(error_of_file(row("1", "a", "0", "_")),
            "read_conllu: DEPREL must be given, got DEPREL=\"_\", line=1 (\"x.conllu\")");
  EXPECT_EQ(error_of_file(row("2-3", "ab", "_", "_")),
            "read_conllu: a range must begin at the next word and hold several, got id=\"2-3\", next=1, line=1 "
            "(\"x.conllu\")");
  EXPECT_EQ(error_of_file(row("1-3", "ab", "_", "_") + row("1", "a", "0", "root")),
            "read_conllu: a range must be followed by its words, got missing=2, line=3 (\"x.conllu\")");
}

TEST(GoldSegment, GivesEachTokenTheWordOfItsFirstByte) {
  const Tokenizer tokenizer = small_tokenizer("cat ##s don ' t sat");
  const std::string file = row("1", "cats", "2", "nsubj") + row("2-3", "don't", "_", "_", "SpaceAfter=No") +
                           row("2", "do", "0", "root") + row("3", "n't", "2", "advmod");
  const GoldSentence sentence = read_conllu(file, "x")[0];
  const Segment segment = gold_segment(tokenizer, sentence, 64);
  EXPECT_EQ(segment.tokens, (std::vector<std::string>{"[CLS]", "cat", "##s", "don", "'", "t", "[SEP]"}));
  EXPECT_EQ(segment.word_ids, (std::vector<std::optional<index_t>>{{}, 0, 0, 1, 2, 2, {}}));
  EXPECT_EQ(gold_segment(tokenizer, sentence, 4).num_tokens(), 4);
}

TEST(WordMap, SumsOverPiecesOfTheKeyAndAveragesOverThoseOfTheQuery) {
  const std::vector<std::optional<index_t>> words = {{}, 0, 0, 1};
  Tensor<float, 2> probs({4, 4});
  const float rows[4][4] = {{1, 0, 0, 0}, {0.1f, 0.2f, 0.3f, 0.4f}, {0.5f, 0.1f, 0.1f, 0.3f}, {0.2f, 0.3f, 0.4f, 0.1f}};
  for (index_t n = 0; n < 16; ++n) probs.data()[n] = rows[n / 4][n % 4];
  const Tensor<float, 2> map = word_map(probs.view(), words, 3);
  EXPECT_NEAR(map(0, 0), (0.5 + 0.2) / 2, 1e-6);
  EXPECT_NEAR(map(0, 1), (0.4 + 0.3) / 2, 1e-6);
  EXPECT_NEAR(map(1, 0), 0.7, 1e-6);
  EXPECT_NEAR(map(1, 1), 0.1, 1e-6);
  EXPECT_EQ(map(2, 0), 0);
  EXPECT_EQ(test::error_of([&] { word_map(probs.view(), words, 1); }),
            "word_map: a word must be in [0, num_words), got word=1, num_words=1");
  EXPECT_EQ(test::error_of([&] { word_map(probs.view(), std::span(words).first(3), 3); }),
            "word_map: probs must have a query and a key for each word id, got queries=4, keys=4, word_ids=3");
}

/// An encoder whose head 0 of layer 0 looks from the token w<n> at w<n + 1>, wherever it stands, from odd n only.
/// Its embeddings are one-hot, which LayerNorm only scales and shifts alike for all.
Encoder pair_encoder(index_t num_words) {
  const index_t vocab = 5 + num_words;
  const EncoderConfig config{.model_type = "bert",
                             .d_model = vocab,
                             .num_layers = 1,
                             .num_heads = 1,
                             .head_dim = vocab,
                             .hidden_features = 1,
                             .vocab_size = vocab,
                             .max_positions = 64,
                             .num_token_types = 0,
                             .norm_epsilon = 1e-6,
                             .pruned_heads = {},
                             .max_text_tokens = 64};
  const nn::RemainingHeads heads{.original_heads = {0}, .original_kv_heads = {0}, .kv_head_of = {0}};
  Encoder encoder(config, std::vector{heads});
  std::fill_n(encoder.embeddings().norm.weight.data(), vocab, 1.0f);
  auto& parameters = encoder.layers()[0].attention.parameters();
  for (index_t id = 0; id < vocab; ++id) encoder.embeddings().word.weight(id, id) = 1;
  for (index_t n = 0; n + 1 < num_words; n += 2) {
    parameters.w_q(n, 5 + n) = 3;  // a feature for each pair
    parameters.w_k(n, 5 + n + 1) = 3;
  }
  return encoder;
}

/// Sentences of the words w0 .. w9 in any order; those with even numbers depend on their successors.
std::vector<GoldSentence> shuffled_sentences(index_t count, test::Random& random) {
  std::string file;
  for (index_t s = 0; s < count; ++s) {
    std::array<index_t, 10> place;
    for (std::size_t n = 0; n < 10; ++n) place[n] = static_cast<index_t>(n);
    for (std::size_t n = 0; n < 10; ++n) std::swap(place[n], place[n + random.bits() % (10 - n)]);
    const auto where = [&](index_t word) { return std::find(place.begin(), place.end(), word) - place.begin() + 1; };
    for (index_t t = 0; t < 10; ++t) {
      const index_t word = place[static_cast<std::size_t>(t)];
      const index_t head = word % 2 == 0 ? where(word + 1) : word == 1 ? 0 : where(1);
      file += row(std::to_string(t + 1), "w" + std::to_string(word), std::to_string(head),
                  word % 2 == 0 ? "nsubj:pass"
                  : word == 1   ? "root"
                                : "punct");
    }
    file += "\n";
  }
  return read_conllu(file, "x");
}

TEST(Relations, FindTheHeadThatFollowsOne) {
  test::Random random(test::run_seed());
  const std::vector<GoldSentence> sentences = shuffled_sentences(60, random);
  const std::vector<Relation> found =
      judge_relations(pair_encoder(10), small_tokenizer(numbered_words(10)), sentences, 64);
  const auto of = [&](const std::string& name, Direction direction) -> const Relation& {
    return *std::ranges::find_if(found,
                                 [&](const Relation& r) { return r.relation == name && r.direction == direction; });
  };
  ASSERT_EQ(found.size(), 6u) << "all, nsubj, punct; root depends on nothing";
  EXPECT_EQ(found.front().relation, "all");
  const Relation& right = of("nsubj", Direction::to_head);
  EXPECT_EQ(right.accuracy, 1);
  EXPECT_EQ(right.instances, 5 * 30);
  EXPECT_LT(right.baseline, 0.3);
  EXPECT_TRUE(right.passed);
  EXPECT_NEAR(right.interval->low, right.accuracy - right.baseline, 0.15);
  EXPECT_EQ(of("all", Direction::to_head).instances, 5 * 30) << "punct is not among all";
  EXPECT_FALSE(of("punct", Direction::to_head).passed);
  EXPECT_EQ(of("punct", Direction::to_dependent).instances, 30) << "one governing word a sentence";

  const std::span<const GoldSentence> few = std::span(sentences).first(30);
  for (const Relation& each : judge_relations(pair_encoder(10), small_tokenizer(numbered_words(10)), few, 64)) {
    EXPECT_FALSE(each.passed) << "fewer than 100 instances";
  }
}

TEST(Relations, ThatAFixedOffsetExplainsDoNotPass) {
  std::string file;
  for (index_t s = 0; s < 60; ++s) {
    for (index_t t = 0; t < 10; ++t) {  // w0 w1 w2 .. in order: the baseline is as good as the head
      file += row(std::to_string(t + 1), "w" + std::to_string(t), std::to_string(t % 2 == 0 ? t + 2 : 0),
                  t % 2 == 0 ? "nsubj" : "root");
    }
    file += "\n";
  }
  const std::vector<Relation> found =
      judge_relations(pair_encoder(10), small_tokenizer(numbered_words(10)), read_conllu(file, "x"), 64);
  ASSERT_EQ(found.size(), 4u);
  for (const Relation& each : found) {
    if (each.direction == Direction::to_head) {
      EXPECT_EQ(each.accuracy, 1);
    }
    EXPECT_EQ(each.baseline, 1);
    EXPECT_EQ(each.baseline_offset, each.direction == Direction::to_head ? 1 : -1);
    EXPECT_FALSE(each.passed);
  }
}

TEST(Relations, OfAVeryLongSentenceTakeTheRoomOfWhatIsRead) {
  std::string file;
  for (index_t t = 1; t <= 200'000; ++t) {  // a map of all words would have 160 GB
    const std::string form = t % 7 == 0 ? "\xE2\x80\x8B" : "w" + std::to_string(t % 10);  // a word without a token
    file += row(std::to_string(t), form, t == 1 ? "0" : std::to_string(t - 1), t == 1 ? "root" : "dep");
  }
  const std::vector<GoldSentence> one = read_conllu(file, "x");
  const std::vector<Relation> found =
      judge_relations(pair_encoder(10), small_tokenizer(numbered_words(10)), std::vector{one[0], one[0]}, 64);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].instances, 62 - 1 - 10) << "words next to each other of which both were read";
}

TEST(Relations, LeaveWordsOutThatWereCut) {
  const std::string file =
      row("1", "w0", "2", "nsubj") + row("2", "w1", "0", "root") + row("3", "w2", "2", "obj") + "\n";
  const std::vector<GoldSentence> sentences = read_conllu(file + file, "x");
  const Tokenizer tokenizer = small_tokenizer(numbered_words(10));
  EXPECT_EQ(judge_relations(pair_encoder(10), tokenizer, sentences, 64).size(), 6u);
  EXPECT_EQ(judge_relations(pair_encoder(10), tokenizer, sentences, 4).size(), 4u) << "w2 and its obj are cut away";
}

}  // namespace
}  // namespace multihead::lens
