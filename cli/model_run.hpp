// A model's folder and a text -> tokens, and what the heads did.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "multihead/report.hpp"
#include "multihead/text_encoder.hpp"

namespace CLI {
class App;
}

namespace multihead::cli {

/// A model that several runs may share.
struct Model {
  std::string folder;
  TextEncoder text_encoder;

  const Encoder& encoder() const { return text_encoder.encoder; }
  /// The last part of the folder's path.
  std::string name() const;
};

struct ModelRun {
  std::shared_ptr<const Model> model;
  std::string text;
  Encoding encoding;
  EncoderOutput output = {};  ///< batch 1

  const std::string& folder() const { return model->folder; }
  const Encoder& encoder() const { return model->encoder(); }
  index_t num_tokens() const { return encoding.num_tokens(); }
  /// The number that a head of a layer had in the design, before any was removed: how people name it.
  index_t original_head(index_t layer, index_t head) const;
  std::string name() const { return model->name(); }
  /// "The text has 600 tokens; the model reads 512, so the last 88 are left out.", or nothing.
  std::string cut_note() const;
};

/// How a text may be given: as TEXT, with --file, or on standard input ("-", or nothing where that is no terminal).
struct TextSource {
  std::optional<std::string> text, file;

  /// The file that is read, or nothing.
  std::string path() const { return file && *file != "-" ? *file : std::string(); }
};

void add_text_source(CLI::App& app, TextSource& source, const std::string& description);

/// The text itself.
/// @throws UsageError  if both were given, or there is nothing but white space
/// @throws Error       if the file cannot be read
std::string text_input(const TextSource& source);

/// The folder that a flag names, or the one in the cache where it is empty.
/// @throws Error  if there is no such folder
std::string model_folder(const std::string& model);

/// @throws Error  if no layer has a head
void check_has_heads(const Encoder& encoder, const std::string& folder);

/// @param most_tokens  to how many tokens texts are cut where the model would read more
/// @throws Error  if the model has no head, or no room for a token of a text
std::shared_ptr<const Model> load_model(const std::string& folder, std::optional<index_t> most_tokens = {});

/// The tokens of a text: what is needed to check flags before anything is computed.
/// @throws UsageError  if the text has no token of its own
ModelRun read_text(std::shared_ptr<const Model> model, const std::string& text);

/// Fills run.output.
void run_model(ModelRun& run, const Capture& capture, Executor* threads);

/// Tokens and words as a page shows them; a word's text is the part of the text that its tokens cover.
ReportTokens report_tokens(const ModelRun& run);

}  // namespace multihead::cli
