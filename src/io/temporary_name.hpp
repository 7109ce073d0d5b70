// Names for what is written first and renamed when it is complete.
#pragma once

#include <string>

namespace multihead {

/// ".multihead." and numbers: unlike any other name of this machine; short, whatever the target is called.
std::string temporary_name();

}  // namespace multihead
