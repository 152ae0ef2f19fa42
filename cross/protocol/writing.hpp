// Values as msgpack, each in its shortest form, as the daemon's encoder writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reflexd::protocol {

// Appends to a string.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void nil();
  void boolean(bool value);
  void integer(std::int64_t value);
  void unsigned_integer(std::uint64_t value);
  void real(double value);
  void text(std::string_view value);
  void bytes(std::span<const std::byte> value);
  // How many pairs or elements follow.
  void map(std::size_t pairs);
  void array(std::size_t elements);
  // The same where the number is not known yet: always five bytes, the last four of them for set_count.
  void open_map();
  void open_array();
  // `end`: bytes written right after the opening.
  void set_count(std::size_t end, std::uint32_t count);

 private:
  std::string& out_;
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
