// The shortest useful client of a gateway: commands the actuators, once, and says what came of it. docs/protocol.md.
//   c++ -std=c++17 -DMSGPACK_NO_BOOST docs/client.cpp -lzmq -o client
//   ./client ipc:///run/reflexd/car/requests@gateway estop
//   ./client tcp://car.local:7390 status DEVICE_KEY PUBLIC_KEY SECRET_KEY
#include <zmq.h>

#include <chrono>
#include <iostream>
#include <map>
#include <msgpack.hpp>
#include <random>

using Map = std::map<std::string, msgpack::object>;

static std::string read(void* socket, int wait_ms) {  // one message, empty if none comes in time
  zmq_pollitem_t item{socket, 0, ZMQ_POLLIN, 0};
  char buffer[65536];
  const int size = zmq_poll(&item, 1, wait_ms) == 1 ? zmq_recv(socket, buffer, sizeof buffer, 0) : 0;
  return {buffer, static_cast<std::size_t>(std::clamp(size, 0, static_cast<int>(sizeof buffer)))};
}

static void* connect(void* context, char** words, int count) {
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const int at_once = 0;
  zmq_setsockopt(socket, ZMQ_LINGER, &at_once, sizeof at_once);
  const int options[] = {ZMQ_CURVE_SERVERKEY, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY};
  for (int i = 0; i < 3 && count == 6; ++i) zmq_setsockopt(socket, options[i], words[3 + i], 40);
  zmq_connect(socket, words[1]);
  return socket;
}

int main(int count, char** words) {
  if (count != 3 && count != 6) return std::cerr << "usage: client ADDRESS OPERATION [DEVICE PUBLIC SECRET]\n", 2;
  void* context = zmq_ctx_new();
  void* socket = connect(context, words, count);
  msgpack::sbuffer hello;
  msgpack::packer<msgpack::sbuffer>(hello).pack_map(3).pack("type").pack("ClientHello").pack("v").pack(1).pack("who").pack(
      "a C++ client");
  zmq_send(socket, hello.data(), hello.size(), 0);
  const std::string welcome = read(socket, 2000);
  if (welcome.empty()) return std::cerr << "no gateway at " << words[1] << ", or the keys do not fit\n", 69;
  const auto unpacked = msgpack::unpack(welcome.data(), welcome.size());
  const Map told = unpacked->as<Map>();
  if (told.at("type").as<std::string>() != "GatewayWelcome") return std::cerr << unpacked.get() << "\n", 77;

  const std::string id = std::to_string(std::random_device{}()) + "-" + std::to_string(std::random_device{}());
  msgpack::sbuffer data;
  msgpack::packer<msgpack::sbuffer> request(data);
  request.pack_map(6).pack("type").pack("Request").pack("v").pack(1).pack("id").pack(id.substr(0, 36));
  request.pack("epoch").pack(told.at("epoch")).pack("expires_ns");
  request.pack(told.at("now_ns").as<std::int64_t>() + 2'000'000'000).pack("ask").pack_map(2);
  request.pack("type").pack("Valve").pack("operation").pack(words[2]);
  for (int tries = 0; tries < 10; ++tries) {  // the same request each time: it runs once
    zmq_send(socket, data.data(), data.size(), 0);
    const std::string answer = read(socket, 300);
    if (!answer.empty()) {
      const auto reply = msgpack::unpack(answer.data(), answer.size());
      std::cout << reply.get() << "\n";
      return reply->as<Map>().at("status").as<std::string>() == "done" ? 0 : 1;
    }
    zmq_close(socket);  // a late answer to this try must not be taken for that of the next
    socket = connect(context, words, count);
  }
  return std::cerr << "no reply: not known whether it was done; ask for the status\n", 1;
}
