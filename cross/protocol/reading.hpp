// Typed values out of tokens, each within its declared limits. Everything here throws Refused with the words of the
// daemon's own decoder: what was expected, what came, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokens.hpp"

namespace reflexd::protocol {

// Where a value stands, for a refusal. Lives on the stack, points to the outer one.
class Path {
 public:
  Path() = default;

  Path field(std::string_view name) const { return {this, name, 0}; }
  Path element(std::size_t index) const { return {this, {}, index}; }
  // "$.inputs[1].shape"
  std::string text() const;

 private:
  Path(const Path* outer, std::string_view name, std::size_t index) : outer_(outer), name_(name), index_(index) {}

  const Path* outer_ = nullptr;
  std::string_view name_;
  std::size_t index_ = 0;
};

struct IntegerLimits {
  std::int64_t least{};
  std::int64_t most{};
};

// An absent limit is not checked. Not a number is within none.
struct RealLimits {
  std::optional<double> ge{};
  std::optional<double> gt{};
  std::optional<double> le{};
  std::optional<double> lt{};
};

struct SizeLimits {
  std::size_t least = 0;
  std::size_t most = std::numeric_limits<std::size_t>::max();
};

// A pattern and the check made of it.
struct Pattern {
  std::string_view pattern;
  bool (*matches)(std::string_view);
};

// "int", "array": as a refusal names it.
std::string_view kind_name(Kind kind);

[[noreturn]] void refuse(const std::string& what, const Path& at);
[[noreturn]] void refuse_kind(std::string_view expected, Value found, const Path& at);
[[noreturn]] void refuse_key(Value found, const Path& at);
[[noreturn]] void refuse_unknown(std::string_view name, const Path& at);
[[noreturn]] void refuse_missing(std::string_view name, const Path& at);
[[noreturn]] void refuse_choice(std::string_view found, const Path& at);
[[noreturn]] void refuse_tag(std::string_view found, const Path& at);

void require_kind(Kind kind, std::string_view name, Value found, const Path& at);
void require_size(std::string_view kind, std::uint64_t size, SizeLimits limits, const Path& at);
// The tag of a struct that is expected at this place.
void require_tag(std::string_view tag, Value found, const Path& at);

std::int64_t read_integer(Value found, const Path& at, IntegerLimits limits);
double read_real(Value found, const Path& at, const RealLimits& limits);
std::string read_text(Value found, const Path& at, SizeLimits limits);
std::string read_text(Value found, const Path& at, const Pattern& pattern);
std::span<const std::byte> read_bytes(Value found, const Path& at, SizeLimits limits);
// One of a few texts, not looked at further.
std::string_view read_choice(Value found, const Path& at);
// The value of the first key `field` of a map, a text: it says which struct the map is.
std::string_view read_tag(Value found, std::string_view field, const Path& at);

// The value of the last key `name`: the one that counts. Nothing if `found` is no map or has none.
std::optional<Value> find_member(Value found, std::string_view name);

// What was found, for a refusal: a text in quotes, a number, or a kind.
std::string describe(const std::optional<Value>& found);

// One of the choices, by its name.
template <typename Choice>
Choice read_enum(Value found, const Path& at, std::initializer_list<Choice> choices) {
  const std::string_view name = read_choice(found, at);
  for (const Choice choice : choices) {
    if (to_string(choice) == name) {
      return choice;
    }
  }
  refuse_choice(name, at);
}

// Calls visit(key, value) for each pair of a map whose keys must be texts.
template <typename Visit>
void for_members(Value found, const Path& at, Visit visit) {
  require_kind(Kind::map, "object", found, at);
  Value next = found.first();
  for (std::uint64_t i = 0; i < found.count(); ++i) {
    if (next.kind() != Kind::text) {
      refuse_key(next, at);
    }
    const Value value = next.after();
    visit(next.content(), value);
    next = value.after();
  }
}

// read(value, path) for each element.
template <typename Read>
auto read_list(Value found, const Path& at, SizeLimits limits, Read read) {
  require_kind(Kind::array, "array", found, at);
  require_size("array", found.count(), limits, at);
  std::vector<decltype(read(found, at))> list;
  Value next = found.first();
  for (std::size_t i = 0; i < found.count(); ++i) {
    list.push_back(read(next, at.element(i)));
    next = next.after();
  }
  return list;
}

// read(value, path) for each pair; of two with the same key the last counts.
template <typename Read>
auto read_map(Value found, const Path& at, SizeLimits limits, Read read) {
  require_kind(Kind::map, "object", found, at);
  require_size("object", found.count(), limits, at);
  std::map<std::string, decltype(read(found, at))> map;
  Value next = found.first();
  for (std::uint64_t i = 0; i < found.count(); ++i) {
    std::string key = read_text(next, at, SizeLimits{});
    const Value value = next.after();
    const Path place = at.field(key);
    auto item = read(value, place);
    map.insert_or_assign(std::move(key), std::move(item));
    next = value.after();
  }
  return map;
}

template <typename Read>
auto read_optional(Value found, const Path& at, Read read) {
  using Item = decltype(read(found, at));
  return found.kind() == Kind::nil ? std::optional<Item>() : std::optional<Item>(read(found, at));
}

}  // namespace reflexd::protocol
