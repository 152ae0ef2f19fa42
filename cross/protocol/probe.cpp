// For tests: decodes what comes on standard input and answers with the same, encoded again, or with the refusal.
//
// A request is one letter (w: a message to the worker, d: one from it, m: a manifest's JSON), its size (32 bits, this
// machine's order) and that many bytes; an answer is + or - for accepted and refused, a size and the bytes or the text.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>

#include "encoded.hpp"
#include "manifest.hpp"
#include "protocol.hpp"

namespace {

namespace protocol = reflexd::protocol;

std::string decode_again(char what, const std::string& data) {
  const auto bytes = std::as_bytes(std::span(data));
  switch (what) {
    case 'w':
      return protocol::encoded(protocol::decode_to_worker(bytes));
    case 'd':
      return protocol::encoded(protocol::decode_from_worker(bytes));
    default:
      return protocol::encoded(protocol::parse_manifest(data));
  }
}

void answer(char verdict, const std::string& data) {
  const auto size = static_cast<std::uint32_t>(data.size());
  std::cout.put(verdict).write(reinterpret_cast<const char*>(&size), sizeof(size));
  std::cout.write(data.data(), static_cast<std::streamsize>(size)).flush();
}

}  // namespace

int main() {
  char what = 0;
  std::uint32_t size = 0;
  while (std::cin.get(what).read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string data(size, '\0');
    std::cin.read(data.data(), static_cast<std::streamsize>(size));
    try {
      answer('+', decode_again(what, data));
    } catch (const protocol::Refused& refused) {
      answer('-', refused.what());
    }
  }
}
