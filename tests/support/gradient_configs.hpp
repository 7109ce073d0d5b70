// The problems on which gradients are compared with central differences: each option alone, then all together.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "tests/support/attention_problem.hpp"

namespace multihead::test {

struct NamedConfig {
  std::string name;
  AttentionConfig config;
};

/// For failure texts.
inline void PrintTo(const NamedConfig& named, std::ostream* out) { *out << named.config.text(); }

inline std::string config_name(const testing::TestParamInfo<NamedConfig>& info) { return info.param.name; }

std::vector<NamedConfig> gradient_configs();

}  // namespace multihead::test
