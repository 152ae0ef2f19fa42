// What decoding throws.
#pragma once

#include <stdexcept>

namespace reflexd::protocol {

// Bytes that are not what they should be; the text, valid UTF-8, says what was expected and what came.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace reflexd::protocol
