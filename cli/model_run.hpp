// A model's folder and a text -> tokens, and what the heads did.
#pragma once

#include <string>

#include "multihead/report.hpp"
#include "multihead/text_encoder.hpp"

namespace multihead::cli {

struct ModelRun {
  std::string folder;
  std::string text;
  Encoding encoding;
  Encoder encoder;
  Side cut_side = Side::right;  ///< the end of the text that is left out where it is too long
  EncoderOutput output;  ///< batch 1

  index_t num_tokens() const { return encoding.num_tokens(); }
  /// The number that a head of a layer had in the design, before any was removed: how people name it.
  index_t designed_head(index_t layer, index_t head) const;
  /// The last part of the folder's path.
  std::string name() const;
  /// "The text has 600 tokens; the model reads 512, so the last 88 are left out.", or nothing.
  std::string cut_note() const;
};

/// The text that was given, by argument or by file: exactly one of both.
/// @throws UsageError  if both were given, or there is nothing but white space
/// @throws Error       if the file cannot be read
std::string text_input(const std::string& text, const std::string& file);

struct ModelInput {
  std::string folder;
  std::string text;
};

/// text_input(), and the model that a flag names, or the one in the cache where it is empty.
/// @throws Error  if there is no such folder
ModelInput model_input(const std::string& model, const std::string& text, const std::string& file);

/// Loads the model and reads its tokens: what is needed to check flags before anything is computed.
ModelRun load_model(const ModelInput& input);

/// Fills run.output.
void run_model(ModelRun& run, const Capture& capture, Executor* threads);

/// Tokens and words as a page shows them; a word's text is the part of the text that its tokens cover.
ReportTokens report_tokens(const ModelRun& run);

}  // namespace multihead::cli
