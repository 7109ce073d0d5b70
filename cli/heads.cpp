// multihead heads: which role each head of a model has, on a text.
#include "heads.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command.hpp"
#include "files.hpp"
#include "model_run.hpp"
#include "multihead/atlas_report.hpp"
#include "multihead/lens/null_model.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

constexpr index_t kNullSegments = 16;
constexpr std::string_view kAblations[] = {"zero", "all"};

struct Flags {
  std::string text, model;
  std::optional<std::string> gold, json, page, fail_if;
  std::string ablation = "zero";
  index_t segments = 64, tokens = 128;
  std::uint64_t seed = 1;
  bool no_null = false, olsson = false, no_ablation = false;
  int threads = 0;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead heads --text letters.txt\n"
    "  multihead heads --text letters.txt --html heads.html\n"
    "  multihead heads --text letters.txt --model DIR --json heads.json --fail-if \"previous==0\"\n"
    "  multihead heads --gold en_pud-ud-test.conllu      (which heads follow which dependency relation)\n\n"
    "A role is judged by the share of attention on its keys, beyond chance; docs/lens.md has the definitions. "
    "Induction\n"
    "and duplicate are judged on random tokens that repeat. FILE \"-\" is standard output; the table is then left "
    "out.\n"
    "--fail-if counts the heads that have a role (or are \"unassigned\"): == != < <= > >= and a number.\n"
    "Exit code: 0 done, 2 wrong usage, 3 the condition of --fail-if holds, 1 anything else.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("Says which role each head of a model has on a text: previous token, first token, broad, ...",
               "multihead heads");
  app.add_option("--text", flags.text, "a text file in UTF-8, \"-\" for standard input")->type_name("FILE");
  app.add_option("--gold", flags.gold, "sentences with dependency trees in CoNLL-U; without --text also the text")
      ->type_name("FILE");
  app.add_option("--model", flags.model, "a Hugging Face folder (BERT family); default: the one of scripts/get-model")
      ->type_name("DIR");
  app.add_option("--json", flags.json, "write the table and all scores as JSON")->type_name("FILE");
  app.add_option("--html", flags.page, "write a page of the heads: grid, table, similarity, map, comparison")
      ->type_name("FILE");
  app.add_option("--fail-if", flags.fail_if, "end with exit code 3 if this holds, as \"induction==0\"")
      ->type_name("CONDITION");
  add_whole_number(app, "--segments", flags.segments, 1, kMostIndex, "at most so many segments of the text [64]");
  add_whole_number(app, "--tokens", flags.tokens, 1, kMostIndex, "tokens of a segment, special ones included [128]");
  app.add_flag("--no-null", flags.no_null, "leave out the model of shuffled weights beside it");
  app.add_option("--ablation", flags.ablation,
                 "what takes the place of each head in turn: zero, or all = also its mean, uniform attention, and zero "
                 "with later maps kept [zero]")
      ->type_name("MODE");
  app.add_flag("--no-ablation", flags.no_ablation, "replace no heads: importance is then the sensitivity");
  app.add_flag("--olsson", flags.olsson,
               "repeat 25 random tokens 4 times, as Olsson et al. 2022; else half a segment twice");
  add_whole_number(app, "--seed", flags.seed, 0, std::numeric_limits<std::uint64_t>::max(),
                   "of random tokens, shuffled weights and intervals [1]");
  add_whole_number(app, "--threads", flags.threads, 0, 4096, "0 = one for each CPU [0]");
  app.footer(kExample);
  return parse(app, argc, argv);
}

index_t most_tokens(const TextEncoder& model) {
  return std::min(model.cut.max_length.value_or(kMostIndex), model.encoder.max_tokens());
}

void check_tokens(const Flags& flags, const TextEncoder& model) {
  const index_t most = most_tokens(model);
  const index_t added = model.tokenizer.encode("").num_tokens();
  if (flags.tokens > most || flags.tokens <= added) {
    throw UsageError(fmt::format("--tokens must be in [{}, {}] for this model, got {}", added + 1, most, flags.tokens));
  }
}

/// Half of a segment, twice; fewer where the vocabulary is small, none where that leaves nothing to judge.
std::vector<lens::Segment> repeated_segments(const Flags& flags, const TextEncoder& model, const lens::Corpus& corpus) {
  const index_t room = flags.tokens - model.tokenizer.encode("").num_tokens();
  lens::RepeatedOptions options{.num_distinct = room / 2, .seed = flags.seed};
  if (flags.olsson) options.num_distinct = 25, options.repeats = 4;
  const index_t needed = options.num_distinct * options.repeats;
  if (flags.olsson && needed > room) {
    throw UsageError(
        fmt::format("--olsson needs --tokens of at least {}, got {}", needed + flags.tokens - room, flags.tokens));
  }
  if (options.num_distinct < 2) return {};
  const index_t ordinary = lens::num_ordinary_tokens(model.tokenizer);
  options.num_distinct = std::min(options.num_distinct, ordinary);
  if (options.num_distinct < 2) return {};
  return lens::repeated_tokens(model.tokenizer, corpus.frequencies, options);
}

/// "--gold": its sentences, and their text where no other was given.
struct Input {
  std::string text;
  std::vector<lens::GoldSentence> gold;
};

Input read_input(const Flags& flags) {
  if (flags.text.empty() && !flags.gold) throw UsageError("--text or --gold is required (multihead heads --help)");
  if (flags.text == kStandardInput && flags.gold == kStandardInput) {
    throw UsageError("--text and --gold must not both be standard input");
  }
  Input input;
  if (flags.gold) input.gold = lens::read_conllu(read_file(*flags.gold), *flags.gold);
  if (!flags.text.empty()) input.text = read_file(flags.text);
  for (const lens::GoldSentence& sentence : input.gold) {
    if (flags.text.empty()) input.text += sentence.text + "\n";
  }
  return input;
}

/// The mean where sentence vectors need what is not supported: roles and the rest do not depend on it.
SentencePooling pooling_of(const std::string& folder) {
  try {
    return load_sentence_pooling(folder);
  } catch (const UnsupportedError& error) {
    print_error(fmt::format("multihead: heads: importance is judged on the mean over the tokens: {}", error.what()));
    return {};
  }
}

void judge(HeadsResult& result, const Flags& flags, TextEncoder& model, const Input& input, Executor* threads) {
  Progress progress(true);
  lens::EncoderRolesOptions options{.seed = flags.seed, .threads = threads};
  lens::Corpus null_corpus{.segments = result.corpus.segments, .frequencies = result.corpus.frequencies};
  if (null_corpus.segments.size() > kNullSegments) null_corpus.segments.resize(kNullSegments);
  lens::EncoderRolesOptions null_options = options;
  null_options.variability_segments = 0;

  const index_t ours = lens::num_runs(result.corpus, result.repeated, options);
  const index_t others = flags.no_null ? 0 : lens::num_runs(null_corpus, result.repeated, null_options);
  const auto sentences = static_cast<index_t>(input.gold.size());
  TimeLeft time(progress, "judging heads", "segments", ours + others + sentences);
  options.progress = [&](index_t done) { time.say(done); };
  model.encoder.pack_weights(threads);
  lens::HeadComparison comparison(
      model.encoder,
      {.query_share = lens::affordable_query_share(model.encoder, result.corpus.segments), .seed = flags.seed});
  const lens::Observer compare = [&](const lens::ObservedBatch& batch) { comparison.add(batch); };
  options.observers = {&compare, 1};
  result.heads = lens::encoder_roles(model.encoder, result.corpus, result.repeated, options);
  result.redundancy = comparison.result(threads);
  result.importance = judge_importance(result, model.encoder,
                                       {.pooling = pooling_of(result.folder),
                                        .seed = flags.seed,
                                        .zero = !flags.no_ablation,
                                        .all = !flags.no_ablation && flags.ablation == "all"},
                                       progress, threads);
  if (!flags.no_null) {
    null_options.progress = [&](index_t done) { time.say(ours + done); };
    const Encoder null = lens::shuffled_encoder(model.encoder, flags.seed);
    lens::HeadComparison null_comparison(
        null, {.query_share = lens::affordable_query_share(null, null_corpus.segments), .seed = flags.seed});
    const lens::Observer compare_null = [&](const lens::ObservedBatch& batch) { null_comparison.add(batch); };
    null_options.observers = {&compare_null, 1};
    result.null = summarise_roles(lens::encoder_roles(null, null_corpus, result.repeated, null_options));
    result.null_redundancy = null_comparison.result(threads);
  }
  if (!input.gold.empty()) {
    const lens::RelationOptions relation_options{
        .seed = flags.seed, .progress = [&](index_t done) { time.say(ours + others + done); }, .threads = threads};
    result.relations =
        lens::judge_relations(model.encoder, model.tokenizer, input.gold, most_tokens(model), relation_options);
  }
  result.seconds = time.elapsed();
}

void print_table(const HeadsResult& result) {
  const Style style = Style::of_stdout();
  const int width = std::min(terminal_width(), 160);
  const lens::Corpus& corpus = result.corpus;
  std::string text = paragraph(
      fmt::format("{}: {} layers, {} heads, {} of {} segments, {} tokens", printable(result.name()), result.num_layers,
                  result.heads.size(), corpus.segments.size(), corpus.num_pieces, corpus.frequencies.num_tokens),
      width, 0, style.bold, style.off);
  if (corpus.segments.front().num_tokens() < kFewestRoleTokens) {
    text += paragraph(few_tokens_note(), width);
  }
  print(text + "\n" + roles_table(result, style, width));
  print("\n" + redundancy_text(result, style, width));
  print("\n" + importance_text(result, style, width));
  if (result.relations) print("\n" + relations_table(result, style, width));
}

/// The files that a person asked for.
class Outputs {
 public:
  Outputs(const Flags& flags, const std::string& folder) {
    std::vector<const Output*> all;
    if (flags.json) all.push_back(&json_.emplace("--json", *flags.json));
    if (flags.page) all.push_back(&page_.emplace("--html", *flags.page));
    for (const std::string& path : {flags.text, flags.gold.value_or("")}) {
      check_apart(all, path == kStandardInput ? "" : path, folder);
    }
  }

  /// The table goes to standard output unless a file does.
  void write(const HeadsResult& result) {
    const std::string numbers = json_ || page_ ? heads_json(result) : "";
    if (page_) page_->write(atlas_page(printable(result.name()), numbers));
    if (json_) json_->write(numbers);
    if ((json_ && json_->is_standard_output()) || (page_ && page_->is_standard_output())) return;
    print_table(result);
    if (page_ || json_) print("\n");
    if (page_) print(fmt::format("Page: {}\n", printable(page_->path())));
    if (json_) print(fmt::format("Numbers: {}\n", printable(json_->path())));
  }

 private:
  std::optional<Output> json_, page_;
};

}  // namespace

int run_heads(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  std::optional<Condition> condition;
  if (flags.fail_if) condition.emplace(*flags.fail_if, flags.gold.has_value());
  if (one_of("--ablation", kAblations, flags.ablation) == 1 && flags.no_ablation) {
    throw UsageError("give --ablation all or --no-ablation, not both");
  }
  const Input input = read_input(flags);
  const std::string folder = model_folder(flags.model);
  Outputs outputs(flags, folder);

  TextEncoder model = load_text_encoder(folder, {.sentence_vectors = false});
  check_has_heads(model.encoder, folder);
  check_tokens(flags, model);
  HeadsResult result{.folder = folder, .num_layers = static_cast<index_t>(model.encoder.layers().size())};
  result.corpus =
      lens::read_corpus(model.tokenizer, input.text, {.segment_tokens = flags.tokens, .max_segments = flags.segments});
  result.repeated = repeated_segments(flags, model, result.corpus);
  Workers threads(flags.threads);
  judge(result, flags, model, input, threads.get());

  outputs.write(result);
  if (!condition || !condition->holds(result)) return 0;
  print_error(fmt::format("multihead: heads: --fail-if holds: {}", condition->found(result)));
  return kFailed;
}

}  // namespace multihead::cli
