#include "reading.hpp"

#include <array>
#include <charconv>

#include "refused.hpp"
#include "text.hpp"

namespace reflexd::protocol {
namespace {

// Of a foreign text, in a refusal.
constexpr std::size_t kShown = 60;

std::string quoted(std::string_view text, char quote) { return quote + fit_text(text, kShown) + quote; }

[[noreturn]] void refuse_limit(std::string_view kind, const std::string& limit, const Path& at) {
  refuse("Expected " + quoted(kind, '`') + ' ' + limit, at);
}

std::string number(double value) {
  std::array<char, 32> digits{};
  const std::to_chars_result written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), written.ptr};
}

// A whole number is a float as well, as in JSON.
double as_real(Value found, const Path& at) {
  switch (found.kind()) {
    case Kind::real:
      return found.real();
    case Kind::unsigned_integer:
      return static_cast<double>(found.unsigned_integer());
    case Kind::signed_integer:
      return static_cast<double>(found.signed_integer());
    default:
      refuse_kind("float", found, at);
  }
}

std::size_t require_utf8(std::string_view text, const Path& at) {
  const auto length = count_code_points(text);
  if (!length) {
    refuse("Expected `str` in UTF-8", at);
  }
  return *length;
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::nil:
      return "null";
    case Kind::boolean:
      return "bool";
    case Kind::unsigned_integer:
    case Kind::signed_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::bytes:
      return "bytes";
    case Kind::extension:
      return "ext";
    case Kind::array:
      return "array";
    case Kind::map:
      return "object";
  }
  return "nothing";
}

std::string Path::text() const {
  std::string text;
  for (const Path* part = this; part->outer_ != nullptr; part = part->outer_) {
    const bool is_element = part->name_.empty();
    text.insert(0, is_element ? '[' + std::to_string(part->index_) + ']' : '.' + fit_text(part->name_, kShown));
  }
  return '$' + text;
}

void refuse(const std::string& what, const Path& at) {
  const std::string place = at.text();
  throw Refused(place == "$" ? what : what + " - at `" + place + '`');
}

void refuse_kind(std::string_view expected, Value found, const Path& at) {
  refuse("Expected " + quoted(expected, '`') + ", got " + quoted(kind_name(found.kind()), '`'), at);
}

void refuse_key(Value found, const Path& at) {
  refuse("Expected `str` as key, got " + quoted(kind_name(found.kind()), '`'), at);
}

void refuse_unknown(std::string_view name, const Path& at) {
  refuse("Object contains unknown field " + quoted(name, '`'), at);
}

void refuse_missing(std::string_view name, const Path& at) {
  refuse("Object missing required field " + quoted(name, '`'), at);
}

void refuse_choice(std::string_view found, const Path& at) { refuse("Invalid enum value " + quoted(found, '\''), at); }

void refuse_tag(std::string_view found, const Path& at) { refuse("Invalid value " + quoted(found, '\''), at); }

void require_kind(Kind kind, std::string_view name, Value found, const Path& at) {
  if (found.kind() != kind) {
    refuse_kind(name, found, at);
  }
}

void require_size(std::string_view kind, std::uint64_t size, SizeLimits limits, const Path& at) {
  if (size < limits.least) {
    refuse_limit(kind, "of length >= " + std::to_string(limits.least), at);
  }
  if (size > limits.most) {
    refuse_limit(kind, "of length <= " + std::to_string(limits.most), at);
  }
}

void require_tag(std::string_view tag, Value found, const Path& at) {
  if (read_choice(found, at) != tag) {
    refuse_tag(found.content(), at);
  }
}

std::int64_t read_integer(Value found, const Path& at, IntegerLimits limits) {
  if (found.kind() != Kind::unsigned_integer) {
    require_kind(Kind::signed_integer, "int", found, at);
  }
  const bool beyond = found.kind() == Kind::unsigned_integer && !std::in_range<std::int64_t>(found.unsigned_integer());
  if (beyond || found.signed_integer() > limits.most) {
    refuse_limit("int", "<= " + std::to_string(limits.most), at);
  }
  if (found.signed_integer() < limits.least) {
    refuse_limit("int", ">= " + std::to_string(limits.least), at);
  }
  return found.signed_integer();
}

double read_real(Value found, const Path& at, const RealLimits& limits) {
  const double value = as_real(found, at);
  if (limits.ge && !(value >= *limits.ge)) {
    refuse_limit("float", ">= " + number(*limits.ge), at);
  }
  if (limits.gt && !(value > *limits.gt)) {
    refuse_limit("float", "> " + number(*limits.gt), at);
  }
  if (limits.le && !(value <= *limits.le)) {
    refuse_limit("float", "<= " + number(*limits.le), at);
  }
  if (limits.lt && !(value < *limits.lt)) {
    refuse_limit("float", "< " + number(*limits.lt), at);
  }
  return value;
}

std::string read_text(Value found, const Path& at, SizeLimits limits) {
  require_kind(Kind::text, "str", found, at);
  require_size("str", require_utf8(found.content(), at), limits, at);
  return std::string(found.content());
}

std::string read_text(Value found, const Path& at, const Pattern& pattern) {
  std::string text = read_text(found, at, SizeLimits{});
  if (!pattern.matches(text)) {
    refuse_limit("str", "matching regex '" + std::string(pattern.pattern) + '\'', at);
  }
  return text;
}

std::span<const std::byte> read_bytes(Value found, const Path& at, SizeLimits limits) {
  require_kind(Kind::bytes, "bytes", found, at);
  require_size("bytes", found.count(), limits, at);
  return std::as_bytes(std::span(found.content()));
}

std::string_view read_choice(Value found, const Path& at) {
  require_kind(Kind::text, "str", found, at);
  return found.content();
}

std::string_view read_tag(Value found, std::string_view field, const Path& at) {
  std::optional<std::string_view> tag;
  for_members(found, at, [&](std::string_view key, Value value) {
    if (key == field && !tag) {
      tag = read_choice(value, at.field(field));
    }
  });
  if (!tag) {
    refuse_missing(field, at);
  }
  return *tag;
}

std::optional<Value> find_member(Value found, std::string_view name) {
  if (found.kind() != Kind::map) {
    return std::nullopt;
  }
  std::optional<Value> member;
  Value next = found.first();
  for (std::uint64_t i = 0; i < found.count(); ++i) {
    const Value value = next.after();
    if (next.kind() == Kind::text && next.content() == name) {
      member = value;
    }
    next = value.after();
  }
  return member;
}

std::string describe(const std::optional<Value>& found) {
  if (!found || found->kind() == Kind::nil) {
    return "None";
  }
  switch (found->kind()) {
    case Kind::text:
      return quoted(found->content(), '\'');
    case Kind::unsigned_integer:
      return std::to_string(found->unsigned_integer());
    case Kind::signed_integer:
      return std::to_string(found->signed_integer());
    case Kind::real:
      return number(found->real());
    case Kind::boolean:
      return found->boolean() ? "True" : "False";
    default:
      return "of kind " + std::string(kind_name(found->kind()));
  }
}

}  // namespace reflexd::protocol
