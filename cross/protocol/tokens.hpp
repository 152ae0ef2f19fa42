// msgpack bytes as a flat list of tokens. A token is made only for a value whose bytes are there, so what a message
// claims to hold costs nothing: memory is bounded by its size, whatever it says, and nothing here recurses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace reflexd::protocol {

// Arrays and maps within one another. Declared messages need 5; more can stand only in a field that is ignored.
inline constexpr std::size_t kMaxDepth = 512;

enum class Kind : std::uint8_t {
  nil,
  boolean,
  unsigned_integer,
  signed_integer,
  real,
  text,
  bytes,
  extension,
  array,
  map
};

struct Token {
  Kind kind{};
  // Index of the token behind this value and all that is in it.
  std::uint32_t next{};
  // The number's bits, or how many bytes, elements or pairs there are.
  std::uint64_t bits{};
  // The first byte of a text or of bytes, in the message itself.
  const char* data{};
};

// One value among the tokens. Cheap to copy; valid as long as the tokens and the message's bytes.
class Value {
 public:
  Value(const std::vector<Token>& tokens, std::uint32_t index) : tokens_(&tokens), index_(index) {}

  Kind kind() const { return token().kind; }
  // Elements of an array, pairs of a map.
  std::uint64_t count() const { return token().bits; }
  bool boolean() const { return token().bits != 0; }
  std::uint64_t unsigned_integer() const { return token().bits; }
  std::int64_t signed_integer() const { return static_cast<std::int64_t>(token().bits); }
  double real() const;
  // Text or bytes.
  std::string_view content() const;

  // The first element, or the first key; only if there is one.
  Value first() const { return {*tokens_, index_ + 1}; }
  // What follows in the same array or map; only if there is something.
  Value after() const { return {*tokens_, token().next}; }

 private:
  const Token& token() const { return (*tokens_)[index_]; }

  const std::vector<Token>* tokens_;
  std::uint32_t index_;
};

// The tokens of exactly one msgpack value. Throws Refused "not a msgpack message: ...".
std::vector<Token> tokenize(std::span<const std::byte> data);

}  // namespace reflexd::protocol
