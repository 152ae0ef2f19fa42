#include "writing.hpp"

#include <array>
#include <bit>
#include <msgpack/pack.hpp>

namespace reflexd::protocol {
namespace {

// What the packer writes to.
struct Sink {
  std::string& out;
  // NOLINTNEXTLINE(readability-make-member-function-const): the packer looks for exactly this
  void write(const char* data, std::size_t size) { out.append(data, size); }
};

template <typename Pack>
void pack(std::string& out, Pack pack_value) {
  Sink sink{out};
  msgpack::packer<Sink> packer(sink);
  pack_value(packer);
}

std::uint32_t narrowed(std::size_t size) { return static_cast<std::uint32_t>(size); }

// The most significant byte first.
template <typename Number>
std::array<char, sizeof(Number)> big_endian(Number number) {
  std::array<char, sizeof(Number)> bytes{};
  for (std::size_t i = sizeof(Number); i-- > 0; number >>= 8) {
    bytes[i] = static_cast<char>(number & 0xffU);
  }
  return bytes;
}

}  // namespace

void Writer::nil() {
  pack(out_, [](auto& packer) { packer.pack_nil(); });
}

void Writer::boolean(bool value) {
  pack(out_, [value](auto& packer) { value ? packer.pack_true() : packer.pack_false(); });
}

void Writer::integer(std::int64_t value) {
  pack(out_, [value](auto& packer) { packer.pack_int64(value); });
}

void Writer::unsigned_integer(std::uint64_t value) {
  pack(out_, [value](auto& packer) { packer.pack_uint64(value); });
}

// By hand: the library's own function writes a whole number as an integer, which the daemon's encoder does not.
void Writer::real(double value) {
  const auto bytes = big_endian(std::bit_cast<std::uint64_t>(value));
  out_ += '\xcb';
  out_.append(bytes.data(), bytes.size());
}

void Writer::text(std::string_view value) {
  const std::uint32_t size = narrowed(value.size());
  pack(out_, [=](auto& packer) { packer.pack_str(size).pack_str_body(value.data(), size); });
}

void Writer::bytes(std::span<const std::byte> value) {
  const std::uint32_t size = narrowed(value.size());
  pack(out_, [=](auto& packer) { packer.pack_bin(size); });
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void Writer::map(std::size_t pairs) {
  pack(out_, [=](auto& packer) { packer.pack_map(narrowed(pairs)); });
}

void Writer::array(std::size_t elements) {
  pack(out_, [=](auto& packer) { packer.pack_array(narrowed(elements)); });
}

void Writer::open_map() { out_.append("\xdf\0\0\0\0", 5); }

void Writer::open_array() { out_.append("\xdd\0\0\0\0", 5); }

void Writer::set_count(std::size_t end, std::uint32_t count) {
  const auto bytes = big_endian(count);
  out_.replace(end - bytes.size(), bytes.size(), bytes.data(), bytes.size());
}

}  // namespace reflexd::protocol
