// multihead prune: a smaller model without the heads that it can best do without.
#include "prune.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <sstream>

#include "command.hpp"
#include "files.hpp"
#include "model_run.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string text, model, method = "fold", select = "loss", storage = "sliced", remove, step;
  std::optional<std::string> output, json;
  index_t sentences = 512, seeds = 5;
  std::uint64_t seed = 1;
  bool allow_empty_layers = false, no_speed = false;
  int threads = 0;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead prune --text sentences.txt --remove 0.2 --output smaller --json prune.json\n"
    "  multihead inspect --model smaller \"The cat sat.\"\n\n"
    "Every second line of the text is used to choose heads and to fit what makes up for them, the others to judge.\n"
    "--method  none; mean: the mean of what is lost goes into b_o; scale: a factor per head that stays;\n"
    "          fold: what is lost is fitted by the heads that stay, into w_o\n"
    "--select  loss: what the sentence vectors are expected to lose; error: what the layer's output loses; output: "
    "what\n"
    "          the head writes; random\n"
    "--storage sliced: smaller and faster, for this library; zeroed: zeros, opens anywhere\n"
    "docs/lens.md tells more. Without --output nothing is saved. Exit code: 0 done, 2 wrong usage, 1 anything else.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app(
      "Removes heads of a sentence encoder, lets the others make up for them, and says what that costs and gains.",
      "multihead prune");
  app.add_option("--text", flags.text, "a text file in UTF-8, one sentence a line; \"-\" for standard input")
      ->type_name("FILE");
  app.add_option("--model", flags.model, "a Hugging Face folder (BERT family); default: the one of scripts/get-model")
      ->type_name("DIR");
  app.add_option("--remove", flags.remove, "share of all heads that go [0.2]")->type_name("SHARE");
  app.add_option("--method", flags.method, "none, mean, scale or fold [fold]")->type_name("NAME");
  app.add_option("--select", flags.select, "loss, error, output or random [loss]")->type_name("NAME");
  app.add_option("--output,-o", flags.output, "the new model's folder")->type_name("DIR");
  app.add_option("--storage", flags.storage, "sliced or zeroed [sliced]")->type_name("NAME");
  app.add_option("--json", flags.json, "write the report as JSON")->type_name("FILE");
  app.add_option("--step", flags.step, "share of all heads that go at once, before heads are judged again [0.1]")
      ->type_name("SHARE");
  add_whole_number(app, "--sentences", flags.sentences, 2, kMostIndex,
                   "at most so many for each of the two uses [512]");
  add_whole_number(app, "--random-seeds", flags.seeds, 0, 1000, "removals at random to compare with [5]");
  app.add_flag("--allow-empty-layer", flags.allow_empty_layers, "a layer may lose all of its heads");
  app.add_flag("--no-speed", flags.no_speed, "measure no speed");
  add_whole_number(app, "--seed", flags.seed, 0, std::numeric_limits<std::uint64_t>::max(), "of what is random [1]");
  add_whole_number(app, "--threads", flags.threads, 0, 4096, "0 = one for each CPU [0]");
  app.footer(kExample);
  return parse(app, argc, argv);
}

double share(const char* flag, const std::string& given, double otherwise) {
  if (given.empty()) return otherwise;
  const double value = nonnegative_number(flag, given);
  if (value <= 0 || value > 1) throw UsageError(fmt::format("{} must be above 0 and at most 1, got {}", flag, given));
  return value;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find_first_not_of(" \t\r\f\v") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

/// At most `most` of these, spread evenly.
template <class T>
std::vector<T> spread(std::vector<T> all, index_t most) {
  const auto count = static_cast<std::size_t>(most);
  if (all.size() <= count) return all;
  std::vector<T> some;
  for (std::size_t n = 0; n < count; ++n) some.push_back(std::move(all[n * all.size() / count]));
  return some;
}

/// The two halves of the text.
struct Sentences {
  std::vector<lens::Segment> calibration;
  std::vector<std::vector<index_t>> held_out;
};

Sentences read_sentences(const Flags& flags, const TextEncoder& model) {
  constexpr std::size_t kFewest = 16;
  const index_t most_tokens = std::min(model.cut.max_length.value_or(kMostIndex), model.encoder.max_tokens());
  const index_t added = model.tokenizer.encode("").num_tokens();
  std::vector<std::string> lines;
  for (std::string& line : lines_of(read_file(flags.text))) {
    if (model.tokenizer.encode(line).num_tokens() > added) lines.push_back(std::move(line));
  }
  if (lines.size() < kFewest) {
    throw Error(fmt::format("the text must have at least {} lines with a token, got {}; one sentence a line", kFewest,
                            lines.size()));
  }
  std::vector<std::string> halves[2];
  for (std::size_t n = 0; n < lines.size(); ++n) halves[n % 2].push_back(std::move(lines[n]));
  Sentences sentences;
  for (const std::string& line : spread(std::move(halves[0]), flags.sentences)) {
    sentences.calibration.push_back(lens::read_segment(model.tokenizer, line, most_tokens));
  }
  for (const std::string& line : spread(std::move(halves[1]), flags.sentences)) {
    sentences.held_out.push_back(model.encode(line).ids);
  }
  return sentences;
}

/// Heads that are gone after each step: 7, 14, .., total.
std::vector<index_t> steps_to(index_t total, index_t num_heads, double step) {
  std::vector<index_t> steps;
  for (index_t n = 1; steps.empty() || steps.back() < total; ++n) {
    const auto gone = static_cast<index_t>(std::lround(static_cast<double>(n) * step * static_cast<double>(num_heads)));
    const index_t last = steps.empty() ? 0 : steps.back();
    steps.push_back(std::min(std::max(gone, last + 1), total));
  }
  return steps;
}

class Pruning {
 public:
  Pruning(const Flags& flags, const TextEncoder& model, const Sentences& sentences, lens::PruneOptions options)
      : flags_(flags), model_(model), sentences_(sentences), options_(options) {
    vectors_ = lens::sentence_vectors(model.encoder, model.pooling, sentences.held_out, options.threads);
  }

  Encoder run(const std::vector<index_t>& steps, std::vector<PrunePoint>& curve) {
    Progress progress(true);
    TimeLeft time(progress, "pruning", "steps", static_cast<index_t>(steps.size()) * (1 + flags_.seeds));
    index_t done = 0;
    const auto step_done = [&] { time.say(++done); };
    time.say(0);
    Encoder pruned = model_.encoder.clone();
    for (const index_t gone : steps) {
      curve.push_back(step(pruned, gone - (curve.empty() ? 0 : curve.back().removed)));
      curve.back().removed = gone;
      step_done();
    }
    for (index_t seed = 0; seed < flags_.seeds; ++seed) {
      Encoder random = model_.encoder.clone();
      lens::PruneOptions options = options_;
      options.selection = lens::Selection::random;
      for (std::size_t n = 0; n < steps.size(); ++n) {
        options.seed = flags_.seed + static_cast<std::uint64_t>(seed) * 1'000'003 + n;
        lens::prune_heads(random, sentences_.calibration, steps[n] - (n == 0 ? 0 : steps[n - 1]), options);
        curve[n].random.push_back(agreement(random));
        step_done();
      }
    }
    return pruned;
  }

 private:
  /// Where making up for the heads does harm on the held-out sentences, it is left out.
  PrunePoint step(Encoder& pruned, index_t count) {
    Encoder before = pruned.clone();
    PrunePoint point{.heads = lens::prune_heads(pruned, sentences_.calibration, count, options_), .agreement = {}};
    point.agreement = agreement(pruned);
    if (options_.compensation == lens::Compensation::none) return point;
    for (const LayerHead& head : point.heads) {
      before.layers()[static_cast<std::size_t>(head.layer)].attention.remove_heads({{head.head}}, nn::RemoveAll::allow);
    }
    const lens::VectorAgreement plain = agreement(before);
    if (plain.loss >= point.agreement.loss) return point;
    pruned = std::move(before);
    point.agreement = plain;
    point.compensated = false;
    return point;
  }

  lens::VectorAgreement agreement(const Encoder& encoder) const {
    const Tensor<float, 2> vectors =
        lens::sentence_vectors(encoder, model_.pooling, sentences_.held_out, options_.threads);
    return lens::compare_vectors(vectors_, vectors);
  }

  const Flags& flags_;
  const TextEncoder& model_;
  const Sentences& sentences_;
  lens::PruneOptions options_;
  Tensor<float, 2> vectors_;
};

using RoleLists = std::vector<std::vector<LayerHead>>;

/// By role: the heads that have it, by their original numbers.
RoleLists roles_of_heads(const Encoder& encoder, const TextEncoder& model, const Sentences& sentences,
                         Executor* threads) {
  constexpr std::size_t kMost = 64;
  lens::Corpus corpus{.segments = sentences.calibration, .frequencies = {}};
  std::vector<index_t> counts(static_cast<std::size_t>(encoder.config().vocab_size));
  for (const lens::Segment& segment : corpus.segments) {
    for (std::size_t t = 0; t < segment.ids.size(); ++t) {
      if (segment.special[t] == 0) ++counts[static_cast<std::size_t>(segment.ids[t])];
    }
  }
  corpus.frequencies = lens::rank_tokens(std::move(counts));
  std::ranges::sort(corpus.segments, std::greater(), &lens::Segment::num_tokens);
  if (corpus.segments.size() > kMost) corpus.segments.resize(kMost);
  std::vector<lens::Segment> repeated;
  const index_t ordinary = lens::num_ordinary_tokens(model.tokenizer);
  const index_t room = std::min<index_t>(encoder.max_tokens(), 128) - model.tokenizer.encode("").num_tokens();
  const index_t distinct = std::min(room / 2, ordinary);
  if (distinct >= 2) {
    repeated = lens::repeated_tokens(model.tokenizer, corpus.frequencies, {.num_distinct = distinct});
  }
  RoleLists lists(lens::kNumRoles);
  for (const lens::EncoderHead& head :
       lens::encoder_roles(encoder, corpus, repeated, {.variability_segments = 0, .threads = threads})) {
    for (const lens::Role role : head.roles.labels) {
      lists[static_cast<std::size_t>(role)].push_back({head.layer, head.number});
    }
  }
  return lists;
}

std::vector<PruneRole> compare_roles(const RoleLists& before, const RoleLists& after, const PruneResult& result) {
  std::vector<PruneRole> roles;
  for (std::size_t n = 0; n < before.size(); ++n) {
    PruneRole role{.name = std::string(lens::role_name(static_cast<lens::Role>(n))),
                   .before = static_cast<index_t>(before[n].size()),
                   .after = static_cast<index_t>(after[n].size()),
                   .removed = {}};
    for (const LayerHead& head : before[n]) {
      const std::vector<index_t>& kept = result.kept[static_cast<std::size_t>(head.layer)];
      if (!std::ranges::binary_search(kept, head.head)) role.removed.push_back(head);
    }
    roles.push_back(std::move(role));
  }
  return roles;
}

index_t weight_bytes(const fs::path& folder) {
  index_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<index_t>(fs::file_size(entry.path()));
  }
  return bytes;
}

void print_table(const PruneResult& result) {
  const Style style = Style::of_stdout();
  const int width = std::min(terminal_width(), 160);
  const std::string name = printable(fs::path(result.folder).lexically_normal().filename().string());
  print(paragraph(
            fmt::format("{}: {} heads, {} sentences ({} tokens) to choose and fit, {} to judge", name, result.num_heads,
                        result.calibration_sentences, result.calibration_tokens, result.sentences),
            width, 0, style.bold, style.off) +
        "\n" + prune_report(result, style, width));
}

}  // namespace

int run_prune(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  if (flags.text.empty()) throw UsageError("--text is required (multihead prune --help)");
  lens::PruneOptions options{
      .selection = static_cast<lens::Selection>(one_of("--select", kSelections, flags.select)),
      .compensation = static_cast<lens::Compensation>(one_of("--method", kMethods, flags.method)),
      .seed = flags.seed,
      .allow_empty_layers = flags.allow_empty_layers};
  const auto storage = static_cast<HeadStorage>(one_of("--storage", kStorages, flags.storage));
  const double remove = share("--remove", flags.remove, 0.2), each_step = share("--step", flags.step, 0.1);
  const std::string folder = model_folder(flags.model);
  std::optional<Output> json;
  if (flags.json) json.emplace("--json", *flags.json);
  const Output* outputs[] = {json ? &*json : nullptr};
  check_apart(std::span(outputs).first(json ? 1 : 0), flags.text == kStandardInput ? "" : flags.text, folder);
  std::optional<OutputFolder> output;
  if (flags.output) output.emplace(*flags.output);

  TextEncoder model = load_text_encoder(folder);
  check_has_heads(model.encoder, folder);
  PruneResult result{.folder = folder,
                     .output = flags.output.value_or(""),
                     .method = options.compensation,
                     .selection = options.selection,
                     .storage = storage};
  for (const EncoderLayer& layer : model.encoder.layers()) result.num_heads += layer.attention.num_heads();
  const auto total = static_cast<index_t>(std::lround(remove * static_cast<double>(result.num_heads)));
  const index_t most = lens::num_removable_heads(model.encoder, flags.allow_empty_layers);
  if (total < 1 || total > most) {
    throw UsageError(fmt::format("--remove must take 1 to {} of the {} heads{}, got {} for {}", most, result.num_heads,
                                 flags.allow_empty_layers ? "" : " (each layer keeps one, unless --allow-empty-layer)",
                                 total, flags.remove.empty() ? "0.2" : flags.remove));
  }
  options.pooling = model.pooling;
  const Sentences sentences = read_sentences(flags, model);
  result.calibration_sentences = static_cast<index_t>(sentences.calibration.size());
  for (const lens::Segment& each : sentences.calibration) result.calibration_tokens += each.num_tokens();
  result.sentences = static_cast<index_t>(sentences.held_out.size());

  Workers threads(flags.threads);
  options.threads = threads.get();
  const auto begin = std::chrono::steady_clock::now();
  model.encoder.pack_weights(threads.get());
  Encoder pruned =
      Pruning(flags, model, sentences, options).run(steps_to(total, result.num_heads, each_step), result.curve);
  for (const EncoderLayer& layer : pruned.layers()) result.kept.push_back(layer.attention.heads().original_heads);
  {
    Progress progress(true);
    progress.say("judging roles and speed");
    pruned.pack_weights(threads.get());
    result.roles = compare_roles(roles_of_heads(model.encoder, model, sentences, threads.get()),
                                 roles_of_heads(pruned, model, sentences, threads.get()), result);
    result.before = size_of(model.encoder, sentences.held_out, threads.get());
    result.after = size_of(pruned, sentences.held_out, threads.get());
    if (!flags.no_speed) result.speed = compare_speed(model.encoder, pruned, sentences.held_out, threads.get());
  }
  result.before.file_bytes = weight_bytes(folder);
  if (output) {
    save_encoder(pruned, folder, *output, storage);
    output->finish();
    result.after.file_bytes = weight_bytes(*flags.output);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  if (json) json->write(prune_json(result));
  if (json && json->is_standard_output()) return 0;
  print_table(result);
  if (json) print(fmt::format("\nNumbers: {}\n", printable(json->path())));
  if (output) print(fmt::format("\nModel: {}\n", printable(*flags.output)));
  return 0;
}

}  // namespace multihead::cli
