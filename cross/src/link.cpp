#include "link.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "protocol.hpp"

namespace reflexd {

Link::Link(int descriptor) : socket_(descriptor), buffer_(protocol::kToWorkerMaxBytes) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "--fd " + std::to_string(descriptor));
  }
  if (type != SOCK_SEQPACKET) {
    throw std::system_error(EPROTOTYPE, std::generic_category(), "--fd " + std::to_string(descriptor));
  }
}

std::optional<std::span<const std::byte>> Link::receive() {
  ssize_t size = 0;
  do {
    size = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC);  // the packet's whole length, kept or not
  } while (size < 0 && errno == EINTR);
  if (size <= 0) {
    return std::nullopt;
  }
  const auto whole = static_cast<std::size_t>(size);
  if (whole > buffer_.size()) {
    throw protocol::Refused("message of " + std::to_string(whole) + " bytes; this link takes " +
                            std::to_string(buffer_.size()) + " at most");
  }
  return std::span(buffer_).first(whole);
}

bool Link::send(const std::string& packet) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

}  // namespace reflexd
