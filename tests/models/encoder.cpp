// What is refused when an encoder is loaded or run, each with its whole text.
#include "multihead/encoder.hpp"

#include <gtest/gtest.h>

#include "models/checkpoint_edits.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead {
namespace {

// The text that loading the edited checkpoint throws, without the folder at its end.
template <class E = CheckpointError>
std::string edited_error(const CheckpointEdits& edits, const std::string& checkpoint = "bert") {
  const TemporaryFolder folder;
  copy_checkpoint(checkpoint, folder, edits);
  std::string text = error_of<E>([&] { load_encoder(folder.path()); });
  for (const std::string& path : {(folder / "config.json").string(), folder.path().string()}) {
    const std::string where = " (\"" + path + "\")";
    if (text.ends_with(where)) return text.substr(0, text.size() - where.size());
  }
  return text;
}

CheckpointEdits with(const std::string& key, const nlohmann::json& value) {
  return {.config = [=](nlohmann::json& config) { config[key] = value; }};
}

CheckpointEdits without(const std::string& key) {
  return {.config = [=](nlohmann::json& config) { config.erase(key); }};
}

TEST(EncoderConfig, SaysWhatTheFileSays) {
  const EncoderConfig config = load_encoder_config(golden_folder("roberta"));
  EXPECT_EQ(config.model_type, "roberta");
  EXPECT_EQ(config.d_model, 32);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.hidden_features, 40);
  EXPECT_EQ(config.vocab_size, 30);
  EXPECT_EQ(config.max_positions, 16);
  EXPECT_EQ(config.max_tokens(), 14) << "two rows are the pad token's and the one before it";
  EXPECT_EQ(config.max_text_tokens, 14);
  EXPECT_EQ(config.num_token_types, 1);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.activation, nn::Activation::gelu_tanh);
}

TEST(EncoderConfig, TheTokenizerMayAllowLess) {
  for (const auto& [limit, tokens] : {std::pair("7", 7), {"1000000000000000019884624838656", 16}, {"20", 16}}) {
    const TemporaryFolder folder;
    copy_checkpoint("bert", folder, {});
    folder.write("tokenizer_config.json", std::string(R"({"model_max_length":)") + limit + "}");
    EXPECT_EQ(load_encoder_config(folder.path()).max_text_tokens, tokens);
    EXPECT_EQ(load_encoder_config(folder.path()).max_tokens(), 16);
  }
}

TEST(EncoderConfig, RefusesWhatItCannotRun) {
  const std::string function = "load_encoder_config: ";
  const auto declined = [&](const std::string& key, const nlohmann::json& value) {
    return edited_error<UnsupportedError>(with(key, value));
  };
  EXPECT_EQ(
      declined("model_type", "t5"),
      function + "model_type must be one of bert, roberta, xlm-roberta, camembert, distilbert, got model_type=\"t5\"");
  EXPECT_EQ(
      declined("hidden_act", "silu"),
      function + "the activation must be one of relu, gelu, gelu_new and their other names, got hidden_act=\"silu\"");
  EXPECT_EQ(declined("position_embedding_type", "relative_key"),
            function +
                "positions must be absolute, got position_embedding_type=\"relative_key\"; "
                "relative positions inside the scores are not handled");
  EXPECT_EQ(declined("is_decoder", true), function + "the model must be an encoder, got is_decoder=true");
}

TEST(EncoderConfig, RefusesFieldsThatAreMissingOrWrong) {
  const std::string function = "load_encoder_config: ";
  EXPECT_EQ(edited_error(without("model_type")), function + "a field must be there, got field=\"model_type\"");
  EXPECT_EQ(edited_error(without("hidden_size")), function + "a field must be there, got field=\"hidden_size\"");
  EXPECT_EQ(edited_error(with("hidden_size", nullptr)), function + "a field must be there, got field=\"hidden_size\"");
  for (const char* value : {"-4", "0", "4.5", "2147483648", "18446744073709551615", "[4]", "true"}) {
    EXPECT_EQ(edited_error(with("num_attention_heads", nlohmann::json::parse(value))),
              function + "a field must be a whole number in range, got num_attention_heads=\"" + value +
                  "\", least=1, below=2147483648");
  }
  EXPECT_EQ(edited_error(with("num_attention_heads", 5)),
            function +
                "the number of heads must divide the width, or head_dim be given, got hidden_size=32, "
                "num_attention_heads=5");
  EXPECT_EQ(edited_error(with("layer_norm_eps", -1.0)),
            function + "the epsilon of the norms must not be negative, got layer_norm_eps=-1");
  EXPECT_EQ(edited_error(with("hidden_act", 3)), function + "a field must be text, got hidden_act=\"3\"");
  EXPECT_EQ(edited_error(with("pad_token_id", 15), "roberta"),
            function +
                "there must be positions after that of the pad token, got max_position_embeddings=16, "
                "pad_token_id=15");
  const std::string pruned = function + "pruned_heads must list, by layer, distinct heads of the design, got layer=";
  for (const auto& [layer, heads] :
       {std::pair("2", "[1]"), {"-1", "[1]"}, {"x", "[1]"}, {"0", "[4]"}, {"0", "[-1]"}, {"0", "[1,1]"}, {"0", "1"}}) {
    EXPECT_EQ(edited_error(with("pruned_heads", {{layer, nlohmann::json::parse(heads)}})),
              pruned + "\"" + layer + "\", heads=\"" + heads + "\", num_layers=2, num_heads=4");
  }
  EXPECT_EQ(edited_error(with("pruned_heads", {1})), function + "pruned_heads must be {\"layer\": [heads ..], ..}");
  const TemporaryFolder folder;
  EXPECT_EQ(error_of<CheckpointError>([&] { load_encoder(folder / "gone"); }),
            "load_encoder: the model folder must be there (\"" + (folder / "gone").string() + "\")");
  EXPECT_EQ(error_of<CheckpointError>([&] { load_encoder(folder.path()); }),
            function + "the folder must hold config.json, got found=nothing (\"" + folder.path().string() + "\")");
}

TEST(Encoder, ConfigAndTensorsMustAgree) {
  const std::string function = "load_encoder: ";
  const std::string shape = function + "a tensor must have the shape that the config asks for, got tensor=";
  EXPECT_EQ(edited_error(with("vocab_size", 31)),
            shape + "\"embeddings.word_embeddings.weight\", shape=[30, 32], expected=[31, 32]");
  EXPECT_EQ(edited_error(with("vocab_size", 2147483647)),
            shape + "\"embeddings.word_embeddings.weight\", shape=[30, 32], expected=[2147483647, 32]");
  EXPECT_EQ(edited_error(with("hidden_size", 64)),
            shape + "\"embeddings.word_embeddings.weight\", shape=[30, 32], expected=[30, 64]");
  EXPECT_EQ(edited_error(with("max_position_embeddings", 17)),
            shape + "\"embeddings.position_embeddings.weight\", shape=[16, 32], expected=[17, 32]");
  EXPECT_EQ(edited_error(with("intermediate_size", 41)),
            shape + "\"encoder.layer.0.intermediate.dense.weight\", shape=[40, 32], expected=[41, 32]");
  const std::string layers = function + "the checkpoint must hold the layers of its config, got num_hidden_layers=";
  EXPECT_EQ(edited_error(with("num_hidden_layers", 3)),
            layers + "3, layers_found=2, next=\"encoder.layer.2.attention.self.query.weight\"");
  EXPECT_EQ(edited_error(with("num_hidden_layers", 2147483647)),
            layers + "2147483647, layers_found=2, next=\"encoder.layer.2.attention.self.query.weight\"");
  EXPECT_EQ(edited_error(with("num_hidden_layers", 1)),
            layers + "1, layers_found=2, next=\"encoder.layer.2.attention.self.query.weight\"");
  const std::string rows =
      function +
      "the rows of a query must be head_dim for each head that the config leaves to the layer, got "
      "tensor=\"encoder.layer.0.attention.self.query.weight\", rows=";
  EXPECT_EQ(edited_error(with("head_dim", 5)), rows + "32, head_dim=5, num_attention_heads=4, num_pruned_heads=0");
  EXPECT_EQ(edited_error(with("head_dim", 4)), rows + "32, head_dim=4, num_attention_heads=4, num_pruned_heads=0");
  EXPECT_EQ(edited_error(with("pruned_heads", {{"0", {1}}})),
            rows + "32, head_dim=8, num_attention_heads=4, num_pruned_heads=1");
  EXPECT_EQ(edited_error(with("pruned_heads", {{"0", {1, 2}}, {"1", {0, 2, 3}}}), "bert_pruned"),
            rows + "24, head_dim=8, num_attention_heads=4, num_pruned_heads=2");
}

TEST(Encoder, MissingTensorsAreNamed) {
  const std::string missing = "load_encoder: every parameter of the family must be in the checkpoint, got num_missing=";
  EXPECT_EQ(edited_error({.rename =
                              [](const std::string& name) {
                                return name.starts_with("encoder.layer.1.attention.output") ? "" : name;
                              }}),
            missing +
                "4, missing=\"encoder.layer.1.attention.output.dense.weight\", "
                "\"encoder.layer.1.attention.output.dense.bias\", "
                "\"encoder.layer.1.attention.output.LayerNorm.weight\", "
                "\"encoder.layer.1.attention.output.LayerNorm.bias\"");
  EXPECT_EQ(edited_error({.rename = [](const std::string& name) { return name.ends_with("bias") ? "" : name; }}),
            missing +
                "17, missing=\"embeddings.LayerNorm.bias\", \"encoder.layer.0.attention.self.query.bias\", "
                "\"encoder.layer.0.attention.self.key.bias\", \"encoder.layer.0.attention.self.value.bias\", "
                "\"encoder.layer.0.attention.output.dense.bias\", ..");
  EXPECT_EQ(edited_error({.rename = [](const std::string& name) { return "model." + name; }}),
            "load_encoder: the checkpoint must hold the word embedding, got "
            "missing=\"embeddings.word_embeddings.weight\" or \"bert.embeddings.word_embeddings.weight\"");
  EXPECT_EQ(edited_error({.rename =
                              [](const std::string& name) {
                                return name == "embeddings.position_embeddings.weight" ? "" : name;
                              }}),
            missing + "1, missing=\"embeddings.position_embeddings.weight\"");
}

TEST(Encoder, ShapesMustFitTheirNeighbours) {
  EXPECT_EQ(edited_error({.tensors =
                              [](std::vector<TensorToSave>& tensors) {
                                for (TensorToSave& saved : tensors) {
                                  if (saved.name == "encoder.layer.1.attention.self.key.weight")
                                    saved.tensor.shape = {16, 64};
                                }
                              }}),
            "load_encoder: a tensor must have the shape that the config asks for, got "
            "tensor=\"encoder.layer.1.attention.self.key.weight\", shape=[16, 64], expected=[32, 32]");
  EXPECT_EQ(edited_error<UnsupportedError>({.tensors =
                                                [](std::vector<TensorToSave>& tensors) {
                                                  for (TensorToSave& saved : tensors) {
                                                    if (saved.name == "embeddings.LayerNorm.bias")
                                                      saved.tensor.dtype = "I32";
                                                  }
                                                }}),
            "Safetensors: a tensor of numbers must be stored as F32, F64, BF16 or F16, got "
            "tensor=\"embeddings.LayerNorm.bias\", dtype=\"I32\", asked=f32");
}

class EncoderInputs : public testing::Test {
 protected:
  std::string error(const EncoderInput& input, const EncoderOptions& options = {}) {
    return error_of<ShapeError>([&] { encoder.forward(input, options); });
  }
  const Encoder encoder = load_encoder(golden_folder("bert"));
  const TokenBatch batch = pad_batch(std::vector<std::vector<index_t>>{{1, 2, 3}, {4, 5}});
};

TEST_F(EncoderInputs, AreCheckedInFull) {
  const std::string function = "Encoder::forward: ";
  const TokenBatch long_text = pad_batch(std::vector<std::vector<index_t>>{{1}, std::vector<index_t>(17)});
  EXPECT_EQ(error(long_text.input()),
            function + "a sequence must be at most max_tokens long, got b=1, length=17, max_tokens=16; cut the text");
  const TokenBatch bad_id = pad_batch(std::vector<std::vector<index_t>>{{1, 2}, {1, 30}});
  EXPECT_EQ(error(bad_id.input()),
            function + "a token id must have a row in the word embedding, got value=30, num_rows=30, b=1, i=1");
  Tensor<index_t, 2> types({2, 3});
  types(0, 1) = -1;
  EXPECT_EQ(error({.token_ids = batch.token_ids, .lengths = batch.lengths, .token_types = types}),
            function + "a token type must have a row in its embedding, got value=-1, num_rows=2, b=0, i=1");
  Tensor<index_t, 1> lengths({2});
  lengths(1) = 4;
  EXPECT_EQ(error({.token_ids = batch.token_ids, .lengths = lengths}),
            function + "a length must be in [0, seqlen], got b=1, length=4, seqlen=3");
  const Tensor<index_t, 1> three({3});
  EXPECT_EQ(error({.token_ids = batch.token_ids, .lengths = three}),
            function + "lengths must be [batch], got lengths=3, batch=2");
  const Tensor<index_t, 2> other_types({2, 2});
  EXPECT_EQ(error({.token_ids = batch.token_ids, .token_types = other_types}),
            function + "token_types must have the shape of token_ids, got token_types=[2, 2], token_ids=[2, 3]");
  EXPECT_EQ(error(batch.input(), {.capture = {.probs = true, .heads = {{{0, 4}}}}}),
            function + "a captured head must be one of its layer's, got layer=0, head=4");
  EXPECT_EQ(error(batch.input(), {.capture = {.probs = true, .heads = {{{1, 0}, {1, 0}}}}}),
            function + "captured heads must be distinct, got layer=1, head=0");
  const TensorView<const float, 1> gate;
  EXPECT_EQ(error(batch.input(), {.gates = {&gate, 1}}),
            function + "gates must have one entry per layer, got gates=1, num_layers=2");
}

TEST_F(EncoderInputs, PaddingIsNeverRead) {
  TokenBatch poisoned = pad_batch(std::vector<std::vector<index_t>>{{1, 2, 3}, {4, 5}}, -7);
  const EncoderOutput clean = encoder.forward(batch.input()), other = encoder.forward(poisoned.input());
  for (index_t i = 0; i < clean.last_hidden.size(); ++i) {
    EXPECT_EQ(clean.last_hidden.data()[i], other.last_hidden.data()[i]);
  }
}

TEST_F(EncoderInputs, MayBeEmpty) {
  const TokenBatch none = pad_batch({}), two_empty = pad_batch(std::vector<std::vector<index_t>>{{}, {}});
  EXPECT_EQ(encoder.forward(none.input()).last_hidden.size(), 0);
  const EncoderOutput out = encoder.forward(two_empty.input(), {.capture = {.probs = true}});
  EXPECT_EQ(out.last_hidden.shape(), (std::array<index_t, 3>{2, 0, 32}));
  EXPECT_EQ(out.heads[0].probs.shape(), (std::array<index_t, 4>{2, 4, 0, 0}));
}

TEST(Pool, MeanFirstAndMaxOverRealTokens) {
  Tensor<float, 3> hidden({2, 3, 2});
  for (index_t i = 0; i < 12; ++i) hidden.data()[i] = static_cast<float>(i);
  Tensor<index_t, 1> lengths({2});
  lengths(0) = 2;
  const auto pooled = [&](Pooling pooling) {
    const Tensor<float, 2> y = pool(hidden, lengths, {.pooling = pooling});
    return std::vector<float>(y.data(), y.data() + 4);
  };
  EXPECT_EQ(pooled(Pooling::mean), (std::vector<float>{1, 2, 0, 0}));
  EXPECT_EQ(pooled(Pooling::first), (std::vector<float>{0, 1, 0, 0}));
  EXPECT_EQ(pooled(Pooling::max), (std::vector<float>{2, 3, 0, 0}));
  for (index_t i = 0; i < 12; ++i) hidden.data()[i] = static_cast<float>(i) - 13.5f;  // all below zero
  EXPECT_EQ(pooled(Pooling::mean), (std::vector<float>{-12.5, -11.5, 0, 0}));
  EXPECT_EQ(pooled(Pooling::first), (std::vector<float>{-13.5, -12.5, 0, 0}));
  EXPECT_EQ(pooled(Pooling::max), (std::vector<float>{-11.5, -10.5, 0, 0}));
  const Tensor<float, 2> unit = pool(hidden, {}, {.normalize = true});
  EXPECT_NEAR(std::hypot(unit(1, 0), unit(1, 1)), 1, 1e-7);
  lengths(1) = 4;
  EXPECT_EQ(error_of<ShapeError>([&] { pool(hidden, lengths, {}); }),
            "pool: a length must be in [0, seqlen], got b=1, length=4, seqlen=3");
}

class SentencePoolingFiles : public testing::Test {
 protected:
  SentencePoolingFiles() { std::filesystem::create_directory(folder / "1_Pooling"); }
  template <class E>
  std::string error() {
    return error_of<E>([&] { load_sentence_pooling(folder.path()); });
  }
  void modules(const std::string& type, const std::string& path = "1_Pooling", const std::string& more = "") {
    folder.write("modules.json", R"([{"path":"","type":"sentence_transformers.models.Transformer"},{"path":")" + path +
                                     R"(","type":"sentence_transformers.models.)" + type + R"("})" + more + "]");
  }
  const TemporaryFolder folder;
};

TEST_F(SentencePoolingFiles, AreReadWhereTheyAre) {
  EXPECT_EQ(load_sentence_pooling(folder.path()).pooling, Pooling::mean);
  EXPECT_FALSE(load_sentence_pooling(folder.path()).normalize);
  modules("Pooling");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length":256})");
  EXPECT_EQ(load_sentence_pooling(folder.path()).pooling, Pooling::first);
  EXPECT_EQ(load_sentence_pooling(folder.path()).max_tokens, 256);
  folder.write("1_Pooling/config.json", R"({"pooling_mode":"max"})");
  EXPECT_EQ(load_sentence_pooling(folder.path()).pooling, Pooling::max);
  folder.write("1_Pooling/config.json", R"({"pooling_mode":["cls"]})");
  EXPECT_EQ(load_sentence_pooling(folder.path()).pooling, Pooling::first);
  EXPECT_FALSE(load_sentence_pooling(folder.path()).normalize);
  modules("Pooling", "1_Pooling", R"(,{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"})");
  EXPECT_TRUE(load_sentence_pooling(folder.path()).normalize);
}

// What sentence-transformers would do otherwise than this library is refused by name.
TEST_F(SentencePoolingFiles, EachSettingIsHonouredOrRefused) {
  struct Case {
    const char *file, *content, *error;
  };
  const Case cases[] = {
      {"sentence_bert_config.json", R"({"max_seq_length":256,"do_lower_case":true})",
       "a setting must have a value that is handled, got do_lower_case=\"true\"; handled: false or absent"},
      {"sentence_roberta_config.json", R"({"max_seq_length":0})",
       "a field must be a whole number in range, got max_seq_length=\"0\", least=1, below=2147483648"},
      {"sentence_bert_config.json", R"({"model_args":{"torch_dtype":"float16"}})",
       "a setting must have a value that is handled, got model_args=\"{\\\"torch_dtype\\\":\\\"float16\\\"}\"; "
       "handled: "
       "{} or absent"},
      {"sentence_bert_config.json", R"({"max_seq_len":128})",
       "a setting must be one that is known, got max_seq_len=\"128\""},
      {"1_Pooling/config.json", R"({"pooling_mode":"mean","scale":2})",
       "a setting must be one that is known, got scale=\"2\""},
      {"1_Pooling/config.json", R"({"pooling_mode":["mean","max"]})",
       "pooling must be by one way alone, got pooling_mode=\"[\\\"mean\\\",\\\"max\\\"]\""},
      {"2_Normalize/config.json", R"({"module_input_name":"token_embeddings"})",
       "a setting must have a value that is handled, got module_input_name=\"\\\"token_embeddings\\\"\"; handled: "
       "\"sentence_embedding\" or absent"},
      {"config_sentence_transformers.json", R"({"prompts":{"query":"find: "},"default_prompt_name":"query"})",
       "no prompt must be put before texts by default, got default_prompt_name=\"query\""},
      {"config_sentence_transformers.json", R"({"model_type":"SparseEncoder"})",
       "a setting must have a value that is handled, got model_type=\"\\\"SparseEncoder\\\"\"; handled: "
       "\"SentenceTransformer\" or absent"},
  };
  std::filesystem::create_directory(folder / "2_Normalize");
  modules("Pooling", "1_Pooling", R"(,{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"})");
  for (const Case& each : cases) {
    folder.write("1_Pooling/config.json", R"({"pooling_mode":"mean","include_prompt":true})");
    folder.write("config_sentence_transformers.json",
                 R"({"prompts":{"query":"","text":"x"},"default_prompt_name":"query","similarity_fn_name":"dot"})");
    EXPECT_EQ(load_sentence_pooling(folder.path()).pooling, Pooling::mean);
    folder.write(each.file, each.content);
    std::string text = error<Error>();
    text.resize(std::min(text.size(), text.find(" (\"/")));
    EXPECT_EQ(text, std::string("load_sentence_pooling: ") + each.error);
    std::filesystem::remove(folder / each.file);
  }
}

TEST_F(SentencePoolingFiles, ModulesMustBeOursInTheirOrder) {
  const auto refused = [&](const std::string& types) {
    std::string list;
    for (const char type : types) {
      list += list.empty() ? "[" : ",";
      list += R"({"path":")" +
              std::string(type == 'P'   ? "1_Pooling"
                          : type == 'I' ? "0_Transformer"
                                        : "") +
              R"(","type":")" +
              (type == 'P'   ? "sentence_transformers.models.Pooling"
               : type == 'N' ? "sentence_transformers.models.Normalize"
               : type == 'X' ? "my_package.Pooling"
                             : "sentence_transformers.base.modules.transformer.Transformer") +
              R"("})";
    }
    folder.write("modules.json", list + "]");
    folder.write("1_Pooling/config.json", R"({"pooling_mode":"mean"})");
    std::string text = error<Error>();
    return text.substr(0, text.find(" (\"/"));
  };
  const std::string function = "load_sentence_pooling: ",
                    order = function + "the modules must be Transformer, Pooling and maybe Normalize, got modules=";
  EXPECT_EQ(refused("TNP"), order + "Transformer, Normalize, Pooling");
  EXPECT_EQ(refused("TPP"), order + "Transformer, Pooling, Pooling");
  EXPECT_EQ(refused("TN"), order + "Transformer, Normalize");
  EXPECT_EQ(refused("TX"),
            function + "a module must be Transformer, Pooling or Normalize, got type=\"my_package.Pooling\"");
  EXPECT_EQ(refused("IP"),
            function + "the encoder must lie in the folder itself, got path=\"0_Transformer\"; give that folder");
}

TEST_F(SentencePoolingFiles, RefuseWhatIsNotHandled) {
  const std::string function = "load_sentence_pooling: ";
  modules("Dense");
  EXPECT_EQ(error<UnsupportedError>(), function +
                                           "a module must be Transformer, Pooling or Normalize, got "
                                           "type=\"sentence_transformers.models.Dense\"");
  modules("Pooling");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken":true})");
  EXPECT_EQ(error<UnsupportedError>(), function + "pooling must be by mean, cls or max, got pooling=lasttoken");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})");
  EXPECT_EQ(error<UnsupportedError>(), function + "pooling must be by one way alone, got first=mean, second=cls");
  folder.write("1_Pooling/config.json", "{}");
  EXPECT_EQ(error<CheckpointError>(),
            function + "one way of pooling must be on (\"" + (folder / "1_Pooling/config.json").string() + "\")");
  modules("Pooling", "../elsewhere");
  EXPECT_EQ(error<CheckpointError>(), function +
                                          "a module's path must be a plain name in the folder, got "
                                          "path=\"../elsewhere\" (\"" +
                                          (folder / "modules.json").string() + "\")");
}

}  // namespace
}  // namespace multihead
