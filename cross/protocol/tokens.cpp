#include "tokens.hpp"

#include <bit>
#include <msgpack.hpp>
#include <string>

#include "refused.hpp"

namespace reflexd::protocol {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Refused("not a msgpack message: " + why); }

// Told by msgpack's parser what it finds, in order.
class Recorder : public msgpack::null_visitor {
 public:
  Recorder(std::vector<Token>& tokens, std::size_t size) : tokens_(tokens), size_(size) {}

  bool visit_nil() { return add(Kind::nil, 0); }
  bool visit_boolean(bool value) { return add(Kind::boolean, value ? 1 : 0); }
  bool visit_positive_integer(std::uint64_t value) { return add(Kind::unsigned_integer, value); }
  // Also for a positive number in a signed form.
  bool visit_negative_integer(std::int64_t value) {
    return add(Kind::signed_integer, static_cast<std::uint64_t>(value));
  }
  bool visit_float32(float value) { return visit_float64(static_cast<double>(value)); }
  bool visit_float64(double value) { return add(Kind::real, std::bit_cast<std::uint64_t>(value)); }
  bool visit_str(const char* data, std::uint32_t size) { return add(Kind::text, size, data); }
  bool visit_bin(const char* data, std::uint32_t size) { return add(Kind::bytes, size, data); }
  bool visit_ext(const char* data, std::uint32_t size) { return add(Kind::extension, size, data); }
  bool start_array(std::uint32_t count) { return open(Kind::array, count); }
  bool start_map(std::uint32_t count) { return open(Kind::map, count); }
  bool end_array() { return close(); }
  bool end_map() { return close(); }

  [[noreturn]] static void parse_error(std::size_t /*parsed*/, std::size_t at) {
    refuse("no value begins as byte " + std::to_string(at) + " does");
  }
  [[noreturn]] void insufficient_bytes(std::size_t /*parsed*/, std::size_t /*at*/) const {
    refuse("its " + std::to_string(size_) + " bytes end within a value");
  }

 private:
  bool add(Kind kind, std::uint64_t bits, const char* data = nullptr) {
    tokens_.push_back({kind, static_cast<std::uint32_t>(tokens_.size() + 1), bits, data});
    return true;
  }

  bool open(Kind kind, std::uint32_t count) {
    if (open_.size() == kMaxDepth) {
      refuse("nested deeper than " + std::to_string(kMaxDepth));
    }
    open_.push_back(tokens_.size());
    return add(kind, count);
  }

  bool close() {
    tokens_[open_.back()].next = static_cast<std::uint32_t>(tokens_.size());
    open_.pop_back();
    return true;
  }

  std::vector<Token>& tokens_;
  std::size_t size_;
  std::vector<std::size_t> open_;
};

}  // namespace

double Value::real() const { return std::bit_cast<double>(token().bits); }

std::string_view Value::content() const {
  // The parser has no address for an empty text.
  return token().bits == 0 ? std::string_view() : std::string_view(token().data, token().bits);
}

std::vector<Token> tokenize(std::span<const std::byte> data) {
  std::vector<Token> tokens;
  Recorder recorder(tokens, data.size());
  std::size_t used = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as msgpack names them
  msgpack::parse(reinterpret_cast<const char*>(data.data()), data.size(), used, recorder);
  if (used != data.size()) {
    refuse(std::to_string(data.size() - used) + " bytes follow its end");
  }
  return tokens;
}

}  // namespace reflexd::protocol
