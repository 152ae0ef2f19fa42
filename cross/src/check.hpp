// Checking a model package in a process of its own, which may crash, hang or be killed over it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace reflexd {

struct CheckOptions {
  std::filesystem::path package;
  std::uint32_t threads = 1;
  bool measured = true;                         // false: latency is left out, for whoever waits for the verdict alone
  std::optional<std::filesystem::path> etdump;  // where to write a profile of a few inferences
};

/// Checks a package from cheap and safe to native: manifest, hashes, program, operators, shapes, goldens, latency.
/// Prints the verdict as one JSON line, with the fields of `daemon.infer.verify.Verdict`, and before each step a line
/// to the error stream: it may be the last thing this process does. Standard output is for the verdict alone.
/// @return 0 for a package that may act, 1 for one that was refused. Leave the process with it, without tear-down.
int check(const CheckOptions& options);

}  // namespace reflexd
