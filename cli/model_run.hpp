// A model's folder and a text -> tokens, and what the heads did.
#pragma once

#include <optional>
#include <string>

#include "multihead/report.hpp"
#include "multihead/text_encoder.hpp"

namespace CLI {
class App;
}

namespace multihead::cli {

struct ModelRun {
  std::string folder;
  std::string text;
  Encoding encoding;
  Encoder encoder;
  Side cut_side = Side::right;  ///< the end of the text that is left out where it is too long
  EncoderOutput output;         ///< batch 1

  index_t num_tokens() const { return encoding.num_tokens(); }
  /// The number that a head of a layer had in the design, before any was removed: how people name it.
  index_t designed_head(index_t layer, index_t head) const;
  /// The last part of the folder's path.
  std::string name() const;
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

struct ModelInput {
  std::string folder;
  std::string text;
};

/// The folder that a flag names, or the one in the cache where it is empty.
/// @throws Error  if there is no such folder
std::string model_folder(const std::string& model);

/// @throws Error  if no layer has a head
void check_has_heads(const Encoder& encoder, const std::string& folder);

/// Loads the model and reads its tokens: what is needed to check flags before anything is computed.
/// @throws UsageError  if the text has no token of its own
/// @throws Error       if the model has no head, or no room for a token of the text
ModelRun load_model(const ModelInput& input);

/// Fills run.output.
void run_model(ModelRun& run, const Capture& capture, Executor* threads);

/// Tokens and words as a page shows them; a word's text is the part of the text that its tokens cover.
ReportTokens report_tokens(const ModelRun& run);

}  // namespace multihead::cli
