// The whole text of an error, so that tests assert all of it.
#pragma once

#include <string>

#include "multihead/error.hpp"

namespace multihead::test {

/// What `run` throws as an E, or "nothing was thrown". Other exceptions pass through and fail the test.
template <class E = ShapeError, class Run>
std::string error_of(Run&& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace multihead::test
