#include "text.hpp"

#include <algorithm>

namespace reflexd::protocol {
namespace {

bool is_between(char byte, unsigned low, unsigned high) {
  const auto value = static_cast<unsigned char>(byte);
  return value >= low && value <= high;
}

// What the second byte may be: narrower after four of the first bytes, against overlong forms, surrogates and what
// lies above U+10FFFF (Unicode, table 3-7).
bool is_second(char first, char second) {
  switch (static_cast<unsigned char>(first)) {
    case 0xe0:
      return is_between(second, 0xa0, 0xbf);
    case 0xed:
      return is_between(second, 0x80, 0x9f);
    case 0xf0:
      return is_between(second, 0x90, 0xbf);
    case 0xf4:
      return is_between(second, 0x80, 0x8f);
    default:
      return is_between(second, 0x80, 0xbf);
  }
}

std::size_t announced_size(char first) {
  if (is_between(first, 0x00, 0x7f)) {
    return 1;
  }
  if (is_between(first, 0xc2, 0xdf)) {
    return 2;
  }
  if (is_between(first, 0xe0, 0xef)) {
    return 3;
  }
  return is_between(first, 0xf0, 0xf4) ? 4 : 0;
}

// Bytes of the code point `bytes` begins with, 0 if it begins with none.
std::size_t code_point_size(std::string_view bytes) {
  const std::size_t size = announced_size(bytes.front());
  if (size < 2) {
    return size;
  }
  if (bytes.size() < size || !is_second(bytes[0], bytes[1])) {
    return 0;
  }
  const std::string_view others = bytes.substr(2, size - 2);
  return std::ranges::all_of(others, [](char byte) { return is_between(byte, 0x80, 0xbf); }) ? size : 0;
}

}  // namespace

std::optional<std::size_t> count_code_points(std::string_view bytes) {
  std::size_t count = 0;
  while (!bytes.empty()) {
    const std::size_t size = code_point_size(bytes);
    if (size == 0) {
      return std::nullopt;
    }
    bytes.remove_prefix(size);
    ++count;
  }
  return count;
}

std::string fit_text(std::string_view bytes, std::size_t longest) {
  std::string text;
  for (std::size_t count = 0; count < longest && !bytes.empty(); ++count) {
    const std::size_t size = code_point_size(bytes);
    text += size == 0 ? std::string_view("?") : bytes.substr(0, size);
    bytes.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return text;
}

}  // namespace reflexd::protocol
