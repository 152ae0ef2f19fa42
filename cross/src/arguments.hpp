// The command line of the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace reflexd {

struct Arguments {
  std::optional<int> descriptor;
  std::optional<std::string> rings;
  std::optional<std::string> package;
  std::optional<std::uint32_t> threads;
  std::optional<std::string> etdump;
  bool version = false;
  bool json = false;
  bool unmeasured = false;
  bool help = false;
};

/// A command line that is not as it should be.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// @param words without the program's name.
/// @throws UsageError
Arguments parse_arguments(std::span<char*> words);

}  // namespace reflexd
