// The runtime's error numbers in words.
#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

namespace reflexd {

/// "error 0x14 (operator missing in this runtime)".
std::string in_words(executorch::runtime::Error error);

}  // namespace reflexd
