// Values as msgpack, each in its shortest form, as the daemon's encoder writes them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <msgpack.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reflexd::protocol {

// Appends to a string. Each function returns true, for a parser's handler to hand on.
class Writer {
 public:
  static constexpr char kArray32 = '\xdd';
  static constexpr char kMap32 = '\xdf';

  explicit Writer(std::string& out) : sink_{&out}, packer_(sink_) {}

  bool nil() { return packer_.pack_nil(), true; }
  bool boolean(bool value) { return value ? packer_.pack_true() : packer_.pack_false(), true; }
  bool integer(std::int64_t value) { return packer_.pack_int64(value), true; }
  bool unsigned_integer(std::uint64_t value) { return packer_.pack_uint64(value), true; }
  bool map(std::size_t pairs) { return packer_.pack_map(narrowed(pairs)), true; }
  bool array(std::size_t elements) { return packer_.pack_array(narrowed(elements)), true; }

  // By hand: the library's own function writes a whole number as an integer, and the daemon does not.
  bool real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    std::array<char, 9> bytes{'\xcb'};
    for (std::size_t i = 0; i < sizeof(bits); ++i) {
      bytes[i + 1] = static_cast<char>(bits >> (56 - 8 * i) & 0xffU);
    }
    sink_.write(bytes.data(), bytes.size());
    return true;
  }

  bool text(std::string_view value) {
    packer_.pack_str(narrowed(value.size())).pack_str_body(value.data(), narrowed(value.size()));
    return true;
  }

  bool bytes(std::span<const std::byte> value) {
    const auto size = narrowed(value.size());
    packer_.pack_bin(size).pack_bin_body(reinterpret_cast<const char*>(value.data()), size);
    return true;
  }

 private:
  struct Sink {
    std::string* out;
    // NOLINTNEXTLINE(readability-make-member-function-const): the packer looks for exactly this
    void write(const char* data, std::size_t size) { out->append(data, size); }
  };

  static std::uint32_t narrowed(std::size_t size) { return static_cast<std::uint32_t>(size); }

  Sink sink_;
  msgpack::packer<Sink> packer_;
};

inline void write(Writer& out, std::int64_t value) { out.integer(value); }
inline void write(Writer& out, double value) { out.real(value); }
inline void write(Writer& out, const std::string& value) { out.text(value); }
inline void write(Writer& out, std::span<const std::byte> value) { out.bytes(value); }

template <typename Item>
void write(Writer& out, const std::vector<Item>& list) {
  out.array(list.size());
  for (const Item& item : list) {
    write(out, item);
  }
}

template <typename Item>
void write(Writer& out, const std::map<std::string, Item>& map) {
  out.map(map.size());
  for (const auto& [key, item] : map) {
    out.text(key);
    write(out, item);
  }
}

template <typename Item>
void write(Writer& out, const std::optional<Item>& value) {
  if (value) {
    write(out, *value);
  } else {
    out.nil();
  }
}

template <typename... Options>
void write(Writer& out, const std::variant<Options...>& value) {
  std::visit([&out](const auto& option) { write(out, option); }, value);
}

}  // namespace reflexd::protocol
