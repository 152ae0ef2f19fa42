// Texts as the wire wants them: UTF-8, their length counted in code points as Python counts it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace reflexd::protocol {

// Code points in `bytes`, or nothing if they are not UTF-8 (overlong forms and surrogates are not).
std::optional<std::size_t> count_code_points(std::string_view bytes);

// `bytes` as UTF-8 of `longest` code points at most: a byte that does not belong becomes '?', the rest is cut off.
std::string fit_text(std::string_view bytes, std::size_t longest);

}  // namespace reflexd::protocol
