// Any bytes are either refused, in UTF-8, or decoded to what is written and decoded to the same again.
//
// The first byte of an input says what the others are: w a message to the worker, d one from it, m a manifest's JSON,
// p a manifest as msgpack; anything else is not looked at.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "encoded.hpp"
#include "manifest.hpp"
#include "protocol.hpp"
#include "text.hpp"

namespace {

namespace protocol = reflexd::protocol;
using Bytes = std::span<const std::byte>;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// `decode_again` reads what `decode` gave and was written.
template <typename Decode, typename DecodeAgain>
void check(Decode decode, DecodeAgain decode_again, std::size_t longest) {
  std::string first;
  try {
    first = protocol::encoded(decode());
  } catch (const protocol::Refused& refused) {
    require(protocol::count_code_points(refused.what()).has_value());
    return;
  }
  // Left-out fields and tags are written, so a message may have grown beyond what the link takes.
  if (first.size() <= longest) {
    require(protocol::encoded(decode_again(std::as_bytes(std::span(first)))) == first);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return -1;
  }
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (*data) {
    case 'w':
      check([&] { return protocol::decode_to_worker(bytes); }, protocol::decode_to_worker, protocol::kToWorkerMaxBytes);
      return 0;
    case 'd':
      check([&] { return protocol::decode_from_worker(bytes); }, protocol::decode_from_worker,
            protocol::kFromWorkerMaxBytes);
      return 0;
    case 'm':
      check([&] { return protocol::parse_manifest(text); }, protocol::decode_manifest, protocol::kMaxManifestBytes);
      return 0;
    case 'p':
      check([&] { return protocol::decode_manifest(bytes); }, protocol::decode_manifest, protocol::kMaxManifestBytes);
      return 0;
    default:
      return -1;
  }
}
