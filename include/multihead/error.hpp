// The errors of the library. Each text reads
//   function: rule, got name=value, name=value; hint
// so that it shows the rule and every number that is involved. The library never prints and never aborts.
#pragma once

#include <stdexcept>

#include "multihead/export.hpp"

namespace multihead {

/// Base class of all errors that the library throws.
class MULTIHEAD_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Extents, strides or option values that contradict each other or the rules of a function.
class MULTIHEAD_API ShapeError : public Error {
 public:
  using Error::Error;
};

/// A file that is missing, damaged, or contradicts itself.
class MULTIHEAD_API CheckpointError : public Error {
 public:
  using Error::Error;
};

/// Well-formed input of a kind that is not handled.
class MULTIHEAD_API UnsupportedError : public Error {
 public:
  using Error::Error;
};

}  // namespace multihead
