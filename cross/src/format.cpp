#include "format.hpp"

#include <array>
#include <charconv>

namespace reflexd {

std::string list_text(std::span<const std::int64_t> numbers) {
  std::vector<std::string> parts;
  for (const std::int64_t number : numbers) {
    parts.push_back(std::to_string(number));
  }
  return "[" + joined(parts, ", ") + "]";
}

std::string list_text(std::span<const std::string> names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    parts.push_back("'" + name + "'");
  }
  return "[" + joined(parts, ", ") + "]";
}

std::string bytes_text(std::span<const std::byte> bytes) {
  std::string text = "b'";
  for (const std::byte byte : bytes) {
    const auto value = static_cast<unsigned>(byte);
    if (value >= 0x20 && value < 0x7F && value != '\'' && value != '\\') {
      text += static_cast<char>(value);
    } else {
      text += "\\x" + hexadecimal(value);
    }
  }
  return text + "'";
}

std::string hexadecimal(unsigned value) {
  std::array<char, 8> digits{};
  auto* const end = std::to_chars(digits.begin(), digits.end(), value, 16).ptr;
  return (value < 0x10 ? "0" : "") + std::string(digits.begin(), end);
}

std::string short_number(double value, int digits) {
  std::array<char, 40> text{};
  auto* const end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, digits).ptr;
  return {text.begin(), end};
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += text.empty() ? "" : separator;
    text += part;
  }
  return text;
}

}  // namespace reflexd
