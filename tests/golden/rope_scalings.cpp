// Rotary frequencies of every scaling against transformers: rope_scalings.py made the data.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "multihead/nn/rope.hpp"

namespace multihead::nn {
namespace {

using nlohmann::json;

RopeScaling scaling_of(const std::string& name) {
  if (name == "linear") return RopeScaling::linear;
  if (name == "dynamic") return RopeScaling::dynamic;
  return name == "yarn" ? RopeScaling::yarn : RopeScaling::llama3;
}

TEST(RopeScalings, SameFrequenciesAsTransformers) {
  std::ifstream file(MULTIHEAD_SOURCE_DIR "/tests/golden/data/rope_scalings.json");
  const json document = json::parse(file);
  for (const json& c : document.at("cases")) {
    RopeConfig config{.base = c.at("base").get<double>(), .scaling = scaling_of(c.at("scaling").get<std::string>())};
    config.factor = c.at("factor").get<double>();
    config.original_max_position = document.at("original_max_position").get<index_t>();
    if (c.contains("attention_factor")) config.attention_factor = c["attention_factor"].get<double>();
    config.beta_fast = c.value("beta_fast", config.beta_fast);
    config.beta_slow = c.value("beta_slow", config.beta_slow);
    config.low_freq_factor = c.value("low_freq_factor", config.low_freq_factor);
    config.high_freq_factor = c.value("high_freq_factor", config.high_freq_factor);
    const Rope rope(config, c.at("head_dim").get<index_t>());
    const std::vector<double> ours = rope.inv_freq(c.value("seqlen", index_t{0}));
    const auto theirs = c.at("inv_freq").get<std::vector<double>>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t p = 0; p < ours.size(); ++p) {
      EXPECT_NEAR(ours[p], theirs[p], 8 * 0x1p-23 * theirs[p]) << c.at("scaling") << " pair " << p;  // theirs are f32
    }
    EXPECT_NEAR(rope.attention_factor(), c.at("result").get<double>(), 1e-15);
  }
}

// ntk divides the lowest frequency by the factor and keeps the highest.
TEST(RopeScalings, NtkStretchesTheLowestFrequency) {
  const std::vector<double> plain = Rope({}, 64).inv_freq();
  const std::vector<double> ntk = Rope({.scaling = RopeScaling::ntk, .factor = 4}, 64).inv_freq();
  EXPECT_EQ(ntk.front(), plain.front());
  EXPECT_NEAR(ntk.back(), plain.back() / 4, 1e-18);
}

}  // namespace
}  // namespace multihead::nn
