#include "arguments.hpp"

#include <charconv>
#include <cstddef>
#include <string_view>

namespace reflexd {
namespace {

constexpr int kMaxDescriptor = 1 << 20;
constexpr std::uint32_t kMaxThreads = 64;

template <typename Number>
Number number(std::string_view name, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw UsageError(std::string(name) + " " + std::string(text) + ": expected a number from " + std::to_string(least) +
                     " to " + std::to_string(most));
  }
  return value;
}

bool take_flag(std::string_view name, Arguments& found) {
  if (name == "--version") {
    found.version = true;
  } else if (name == "--json") {
    found.json = true;
  } else if (name == "--unmeasured") {
    found.unmeasured = true;
  } else if (name == "--help") {
    found.help = true;
  } else {
    return false;
  }
  return true;
}

void take_value(std::string_view name, std::string_view value, Arguments& found) {
  if (name == "--fd") {
    found.descriptor = number(name, value, 0, kMaxDescriptor);
  } else if (name == "--rings") {
    found.rings = value;
  } else if (name == "--check") {
    found.package = value;
  } else if (name == "--threads") {
    found.threads = number(name, value, std::uint32_t{1}, kMaxThreads);
  } else if (name == "--etdump") {
    found.etdump = value;
  } else {
    throw UsageError("unknown argument " + std::string(name));
  }
}

}  // namespace

Arguments parse_arguments(std::span<char*> words) {
  Arguments found;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string_view name = words[at];
    if (take_flag(name, found)) {
      continue;
    }
    const bool last = at + 1 == words.size();
    take_value(name, last ? "" : words[++at], found);
    if (last) {
      throw UsageError(std::string(name) + ": expected a value");
    }
  }
  return found;
}

}  // namespace reflexd
