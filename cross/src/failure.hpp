// Why there is no result.
#pragma once

#include <stdexcept>
#include <string>

#include "protocol.hpp"

namespace reflexd {

/// A package that must not act; the text names the file, what was expected and what was found.
class PackageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The runtime refused or failed; the reason is the counter's word, the text is for a person.
class RuntimeFailure : public std::runtime_error {
 public:
  RuntimeFailure(protocol::Drop reason, const std::string& detail) : std::runtime_error(detail), reason_(reason) {}

  [[nodiscard]] protocol::Drop reason() const noexcept { return reason_; }

 private:
  protocol::Drop reason_;
};

}  // namespace reflexd
