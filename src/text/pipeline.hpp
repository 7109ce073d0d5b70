// The steps of a tokenizer, and how they are read from its file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/added_tokens.hpp"
#include "text/decoder.hpp"
#include "text/model.hpp"
#include "text/normalizer.hpp"
#include "text/post_processor.hpp"
#include "text/pre_tokenizer.hpp"

namespace multihead {

struct Tokenizer::Pipeline {
  AddedTokens added;
  std::unique_ptr<const Normalizer> normalizer;       // null: characters stay as they are
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  // null: a stretch of text is one word
  std::unique_ptr<const Model> model;
  PostProcessor post_processor;
  std::unique_ptr<const Decoder> decoder;
  std::optional<TruncationProposal> truncation;
  std::optional<PaddingProposal> padding;
};

/// From the content of a tokenizer.json; `file` names it in error texts.
Tokenizer::Pipeline read_pipeline(const nlohmann::json& document, const std::filesystem::path& file);

/// The tokenizer.json that a vocab.txt, and maybe a tokenizer_config.json beside it, stand for: a BERT tokenizer.
nlohmann::json document_from_vocab(const std::filesystem::path& vocab_file);

}  // namespace multihead
