// A message's type and version, looked at before and after its fields are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reading.hpp"
#include "refused.hpp"
#include "tokens.hpp"

namespace reflexd::protocol {

// Bytes that came over a link.
class Incoming {
 public:
  // `carried`: the types the link carries, for a refusal. Throws Refused: too large, not a msgpack map.
  Incoming(std::span<const std::byte> data, std::size_t max_bytes, std::string_view carried);

  // Whether the message says it is of this type.
  bool is(std::string_view type) const;

  // The message, its fields read by `read`. Throws Refused.
  template <typename Message>
  Message as(Message (*read)(Value, const Path&)) const {
    try {
      Message message = read(root(), Path());
      require_version(message.v);
      return message;
    } catch (const Refused& refused) {
      explain(refused);
    }
  }

  // For a type that is none of the link's.
  [[noreturn]] void refuse_type() const;

 private:
  Value root() const { return {tokens_, 0}; }
  void require_version(std::int64_t found) const;
  [[noreturn]] void explain(const Refused& refused) const;

  std::span<const std::byte> data_;
  std::string_view carried_;
  std::vector<Token> tokens_;
  std::optional<Value> type_;
};

// The tokens of a manifest of the version this build reads. Throws Refused.
std::vector<Token> manifest_tokens(std::span<const std::byte> data);

}  // namespace reflexd::protocol
