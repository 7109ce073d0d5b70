#include "text/tokenizer_settings.hpp"

#include <algorithm>
#include <charconv>

#include "io/settings.hpp"

namespace multihead {
namespace {

constexpr std::string_view kFunction = "Tokenizer::load";

// Classes that make BERT's tokenizer of a vocabulary.
constexpr std::string_view kBertClasses[] = {
    "BertTokenizer",      "DistilBertTokenizer",  "ElectraTokenizer",  "MobileBertTokenizer", "ConvBertTokenizer",
    "RetriBertTokenizer", "SqueezeBertTokenizer", "LayoutLMTokenizer", "LxmertTokenizer",
};
// Classes that do what tokenizer.json says.
constexpr std::string_view kGenericClasses[] = {"PreTrainedTokenizer", "TokenizersBackend"};
// Values of model_type whose tokenizer is BERT's where no class is named.
constexpr std::string_view kBertTypes[] = {"bert",      "distilbert",  "electra",  "mobilebert", "convbert",
                                           "retribert", "squeezebert", "layoutlm", "lxmert"};

constexpr Setting kHarmless[] = {
    {"auto_map", "{}"},  // custom code of the model
    {"fast_tokenizer_files", R"([] ["tokenizer.json"])"},
    {"init_inputs", "[]"},
    {"do_basic_tokenize", "true"},
    {"do_word_tokenize", "true"},
    {"do_subword_tokenize", "true"},
    {"word_tokenizer_type", "\"basic\""},
    {"subword_tokenizer_type", "\"wordpiece\""},
    {"mecab_kwargs", "{}"},
    {"sudachi_kwargs", "{}"},
    {"jumanpp_kwargs", "{}"},
    {"clean_text", "true"},
    {"wordpieces_prefix", "\"##\""},
    {"split_special_tokens", "false"},
    {"add_bos_token", "false"},
    {"add_eos_token", "false"},
    {"padding_side", "\"right\""},  // to the left it would move the positions
};

// In the order in which they are added.
constexpr std::string_view kSpecialKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

struct Files {
  const JsonFile *config, *special, *added;
};

JsonNode root_of(const JsonFile& file, const char* name) { return JsonNode(file.content, name, file.path); }

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<bool> stated_flag(const JsonNode& config, const char* key) {
  const auto node = config.find(key);
  return node ? std::optional(node->boolean()) : std::nullopt;
}

// The class of tokenizer_config.json, else that of config.json; none for a folder that names none.
std::string checked_class(const ModelFolder& folder, const JsonFile* config, bool from_vocabulary) {
  const JsonFile* const model = folder.object("config.json", kFunction);
  std::optional<JsonNode> node;
  if (config) node = root_of(*config, "tokenizer_config").find("tokenizer_class");
  if (!node && model) node = root_of(*model, "config").find("tokenizer_class");
  if (node) {
    std::string name = node->text();
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    const bool handled = among(kBertClasses, name) || (!from_vocabulary && among(kGenericClasses, name));
    if (!handled)
      node->unsupported(node->text(), from_vocabulary ? "BertTokenizer" : "BertTokenizer, PreTrainedTokenizerFast");
    return name;
  }
  const auto type = from_vocabulary && model ? root_of(*model, "config").find("model_type") : std::nullopt;
  if (type && !among(kBertTypes, type->text())) {
    type->unsupported(type->text(), "a vocab.txt of bert and distilbert, or tokenizer_class");
  }
  return {};
}

// A token as a string, or as an object with its content and maybe flags.
AddedToken read_token(const JsonNode& node, bool special) {
  AddedToken token{.special = special};
  if (node.is_text()) {
    token.content = node.text();
    token.normalized = !special;
    return token;
  }
  const auto flag = [&](const char* key, bool otherwise) { return stated_flag(node, key).value_or(otherwise); };
  token.content = node.at("content").text();
  token.special = special || flag("special", false);
  token.single_word = flag("single_word", false);
  token.takes_left = flag("lstrip", false);
  token.takes_right = flag("rstrip", false);
  token.normalized = flag("normalized", !flag("special", false));
  return token;
}

// Tokens with ids: added_tokens_decoder of tokenizer_config.json, else added_tokens.json. In the order of their ids.
std::vector<StatedToken> tokens_with_ids(const Files& files, const std::vector<AddedToken>& special) {
  const auto is_special = [&](const std::string& content) {
    return std::ranges::find(special, content, &AddedToken::content) != special.end();
  };
  std::vector<StatedToken> tokens;
  const auto decoder =
      files.config ? root_of(*files.config, "tokenizer_config").find("added_tokens_decoder") : std::nullopt;
  if (decoder) {
    for (auto& [id, node] : decoder->members()) {
      index_t number = -1;
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
      if (error != std::errc{} || end != id.data() + id.size()) node.fail("must be under an id", {{"id", quote(id)}});
      tokens.push_back({.token = read_token(node, false), .id = node, .stated_id = number, .replaces = true});
    }
  } else if (files.added) {
    for (auto& [content, node] : root_of(*files.added, "added_tokens").members()) {
      const bool named = is_special(content);
      AddedToken token{.content = content, .special = named, .normalized = !named};
      tokens.push_back({.token = token, .id = node, .stated_id = node.count()});
    }
  }
  for (StatedToken& each : tokens) each.token.special = each.token.special || is_special(each.token.content);
  std::ranges::stable_sort(tokens, {}, &StatedToken::stated_id);
  return tokens;
}

// Tokens without keys of their own, in one of two files, or in both if they agree.
std::vector<AddedToken> extra_tokens(const std::vector<JsonNode>& roots) {
  std::vector<AddedToken> tokens;
  std::optional<std::string> first;  // the list that was read
  for (const JsonNode& root : roots) {
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const auto node = root.find(key);
      if (!node || node->is_empty()) continue;
      std::vector<AddedToken> own;
      if (node->is_object()) {
        for (const auto& [name, each] : node->members()) own.push_back(read_token(each, true));
      } else {
        for (const JsonNode& each : node->elements()) own.push_back(read_token(each, true));
      }
      std::string contents;
      for (const AddedToken& each : own) contents.append(each.content).append("\n");
      if (first && *first != contents) node->fail("must be the tokens that stand elsewhere as well");
      if (!first) tokens = std::move(own);
      first = contents;
    }
  }
  return tokens;
}

// All special tokens in the order in which they are added; `by_key` gets those that have a key.
std::vector<AddedToken> special_tokens(const Files& files, bool from_vocabulary,
                                       std::map<std::string, std::string>& by_key) {
  std::map<std::string, AddedToken> named;  // the later file counts
  std::vector<std::string> order(std::begin(kSpecialKeys), std::end(kSpecialKeys));
  std::vector<JsonNode> roots;
  if (from_vocabulary) {
    for (const auto& [key, content] : {std::pair("unk_token", "[UNK]"),
                                       {"sep_token", "[SEP]"},
                                       {"pad_token", "[PAD]"},
                                       {"cls_token", "[CLS]"},
                                       {"mask_token", "[MASK]"}}) {
      named[key] = {.content = content, .special = true};
    }
  }
  if (files.config) roots.push_back(root_of(*files.config, "tokenizer_config"));
  const bool has_decoder = files.config && roots[0].find("added_tokens_decoder");
  if (files.special && !has_decoder) roots.push_back(root_of(*files.special, "special_tokens_map"));
  for (const JsonNode& root : roots) {
    for (const auto& [key, node] : root.members()) {
      const bool is_named = among(kSpecialKeys, key);
      if (node.is_null() || !key.ends_with("_token") || (!is_named && !node.is_text())) continue;
      if (!is_named && !named.contains(key)) order.push_back(key);
      named[key] = read_token(node, true);
      by_key[key] = named[key].content;
    }
  }
  std::vector<AddedToken> tokens;
  for (const std::string& key : order) {
    if (const auto found = named.find(key); found != named.end()) tokens.push_back(found->second);
    if (const auto found = named.find(key); found != named.end()) by_key.emplace(key, found->second.content);
  }
  std::ranges::copy(extra_tokens(roots), std::back_inserter(tokens));
  return tokens;
}

void read_config(const JsonFile& file, TokenizerSettings& settings) {
  const JsonNode config = root_of(file, "tokenizer_config");
  require_harmless(file.content, kHarmless, file.path, kFunction);
  settings.config = &file;
  settings.lowercase = stated_flag(config, "do_lower_case");
  settings.isolate_ideographs = stated_flag(config, "tokenize_chinese_chars");
  if (file.content.contains("strip_accents")) settings.strip_accents = stated_flag(config, "strip_accents");
  if (const auto node = config.find("never_split")) {
    settings.never_split = node->elements();
  }
  if (const auto side = config.find("truncation_side")) {
    const std::string name = side->text();
    if (name != "left" && name != "right") side->fail("must be left or right", {{"value", quote(name)}});
    settings.truncation_side = name == "left" ? Side::left : Side::right;
  }
  if (const auto names = config.find("model_input_names")) {
    const auto inputs = names->elements();
    settings.uses_token_types =
        std::ranges::any_of(inputs, [](const JsonNode& each) { return each.text() == "token_type_ids"; });
  }
}

}  // namespace

TokenizerSettings read_tokenizer_settings(const ModelFolder& folder, bool from_vocabulary) {
  const Files files = {.config = folder.object("tokenizer_config.json", kFunction),
                       .special = folder.object("special_tokens_map.json", kFunction),
                       .added = folder.object("added_tokens.json", kFunction)};
  TokenizerSettings settings;
  const std::string name = checked_class(folder, files.config, from_vocabulary);
  settings.is_bert = among(kBertClasses, name);
  if (files.config) read_config(*files.config, settings);

  const std::vector<AddedToken> special = special_tokens(files, from_vocabulary, settings.special);
  settings.tokens = tokens_with_ids(files, special);
  for (const AddedToken& token : special) settings.tokens.push_back({.token = token});
  return settings;
}

}  // namespace multihead
