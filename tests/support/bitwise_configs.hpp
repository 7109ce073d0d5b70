// Problems on which statements about bits are made: several tiles of queries and keys, and decode; many options at
// once.
#pragma once

#include "tests/support/gradient_configs.hpp"

namespace multihead::test {

std::vector<NamedConfig> bitwise_configs();

}  // namespace multihead::test
