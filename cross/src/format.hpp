// Parts of texts for people, in the form the Python side gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reflexd {

/// "[1, 2, 16, 16]".
std::string list_text(std::span<const std::int64_t> numbers);

/// "['forward', 'other']".
std::string list_text(std::span<const std::string> names);

/// "b'ET12'", with \x escapes for what is not printable.
std::string bytes_text(std::span<const std::byte> bytes);

/// `value` in two hexadecimal digits or more.
std::string hexadecimal(unsigned value);

/// `value` with up to `digits` significant digits, trailing zeros dropped.
std::string short_number(double value, int digits);

/// The parts with `separator` between them.
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace reflexd
