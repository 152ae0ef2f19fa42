#include "message.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "protocol.hpp"

namespace reflexd::protocol {
namespace {

// The packed key "v". A message without a version is told by its absence, as in daemon/wire.py, for which a field
// left out has its default.
constexpr std::array kVersionKey = {std::byte{0xa1}, std::byte{'v'}};

std::string version_text(const std::string& found) {
  return "protocol version " + found + "; this build speaks " + std::to_string(kProtocol);
}

// What JSON of the largest size can become: "[]" is five bytes, no other text grows as much.
constexpr std::size_t kMaxPackedManifest = 3 * kMaxManifestBytes;

std::span<const std::byte> within(std::span<const std::byte> data, std::size_t max_bytes) {
  if (data.size() > max_bytes) {
    throw Refused("message of " + std::to_string(data.size()) + " bytes; this link takes " + std::to_string(max_bytes) +
                  " at most");
  }
  return data;
}

// Of two types the first counts; the other must be the same.
std::optional<Value> first_type(Value message) {
  std::optional<Value> type;
  for_members(message, Path(), [&](std::string_view key, Value value) {
    if (key == "type" && !type) {
      type = value;
    }
  });
  return type;
}

}  // namespace

Incoming::Incoming(std::span<const std::byte> data, std::size_t max_bytes, std::string_view carried)
    : data_(within(data, max_bytes)), carried_(carried), tokens_(tokenize(data)) {
  if (root().kind() != Kind::map) {
    throw Refused("not a msgpack map but " + std::string(kind_name(root().kind())));
  }
  type_ = first_type(root());
}

bool Incoming::is(std::string_view type) const {
  return type_ && type_->kind() == Kind::text && type_->content() == type;
}

void Incoming::refuse_type() const {
  throw Refused("message type " + describe(type_) + "; this link carries " + std::string(carried_));
}

void Incoming::require_version(std::int64_t found) const {
  const auto key = std::search(data_.begin(), data_.end(), kVersionKey.begin(), kVersionKey.end());
  if (found != kProtocol || key == data_.end()) {
    throw Refused(version_text(std::to_string(found)));
  }
}

// A peer of another version is told that, and not what else differs.
void Incoming::explain(const Refused& refused) const {
  const std::optional<Value> version = find_member(root(), "v");
  const bool spoken = describe(version) == std::to_string(kProtocol);
  throw Refused(std::string(type_->content()) + ": " + (spoken ? refused.what() : version_text(describe(version))));
}

std::vector<Token> manifest_tokens(std::span<const std::byte> data) {
  if (data.size() > kMaxPackedManifest) {
    throw Refused("manifest of " + std::to_string(data.size()) + " packed bytes; expected " +
                  std::to_string(kMaxPackedManifest) + " at most");
  }
  std::vector<Token> tokens = tokenize(data);
  const std::optional<Value> version = find_member(Value(tokens, 0), "manifest_version");
  if (version && describe(version) != std::to_string(kManifestVersion)) {
    throw Refused("manifest_version = " + describe(version) + "; this build reads " + std::to_string(kManifestVersion));
  }
  return tokens;
}

}  // namespace reflexd::protocol
