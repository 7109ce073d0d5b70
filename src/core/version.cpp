#include "multihead/version.hpp"

namespace multihead {

const char* version() { return MULTIHEAD_VERSION; }

}  // namespace multihead
