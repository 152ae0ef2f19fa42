// Messages as bytes, for programs that decode and write again.
#pragma once

#include <string>
#include <variant>

#include "protocol.hpp"

namespace reflexd::protocol {

template <typename Message>
std::string encoded(const Message& message) {
  std::string out;
  encode(message, out);
  return out;
}

template <typename... Messages>
std::string encoded(const std::variant<Messages...>& message) {
  return std::visit([](const auto& option) { return encoded(option); }, message);
}

}  // namespace reflexd::protocol
