// The steps of a tokenizer, and how they are read from its file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/added_tokens.hpp"
#include "text/decoder.hpp"
#include "text/model.hpp"
#include "text/normalizer.hpp"
#include "text/post_processor.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/tokenizer_settings.hpp"

namespace multihead {

struct Tokenizer::Pipeline {
  AddedTokens added;
  std::unique_ptr<const Normalizer> normalizer;       // null: characters stay as they are
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  // null: a stretch of text is one word
  std::unique_ptr<const Model> model;
  PostProcessor post_processor;
  std::unique_ptr<const Decoder> decoder;
  std::optional<TruncationProposal> truncation;
  Side truncation_side = Side::right;
  bool uses_token_types = true;
  std::optional<PaddingProposal> padding;
};

/// From the content of a tokenizer.json and the settings beside it; `file` names it in error texts.
Tokenizer::Pipeline read_pipeline(const nlohmann::json& document, const std::filesystem::path& file,
                                  const TokenizerSettings& settings);

/// The tokenizer.json that a vocab.txt and the settings beside it stand for: a BERT tokenizer.
nlohmann::json document_from_vocab(const std::filesystem::path& vocab_file, const TokenizerSettings& settings);

/// Where there is no tokenizer.json: there must be a vocab.txt. The error names the kind of tokenizer that is there.
void require_vocab_file(const ModelFolder& folder);

/// From tokenizer.json of the folder or, failing that, from its vocab.txt.
Tokenizer::Pipeline read_pipeline(const ModelFolder& folder);

/// Tokenizer::load of a folder that is open.
Tokenizer load_tokenizer(const ModelFolder& folder);

}  // namespace multihead
