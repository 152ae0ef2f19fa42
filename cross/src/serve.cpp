#include "serve.hpp"

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "failure.hpp"
#include "format.hpp"
#include "link.hpp"
#include "process.hpp"
#include "protocol.hpp"
#include "runtime_log.hpp"
#include "served_model.hpp"
#include "text.hpp"
#include "version.hpp"

namespace reflexd {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Drop;
using protocol::FromWorker;
using protocol::LoadModel;
using protocol::ModelLoaded;
using protocol::RunFailed;
using protocol::RunModel;
using protocol::WorkerLog;
using protocol::WorkerLogLevel;

constexpr int kLinesPerSecond = 20;

double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

WorkerLogLevel level_of(char letter) {
  switch (letter) {
    case 'D':
      return WorkerLogLevel::debug;
    case 'I':
      return WorkerLogLevel::info;
    default:
      return WorkerLogLevel::error;
  }
}

WorkerLog log_message(WorkerLogLevel level, const std::string& text) {
  WorkerLog message;
  message.level = level;
  message.text = protocol::fit_text(text, WorkerLog::kTextMaxLength);
  return message;
}

/// A failure in the daemon's words, with what the runtime said about it.
RunFailed failed(std::int64_t request, const std::string& model, Drop reason, const std::string& detail) {
  std::vector<std::string> said = runtime_log::take_texts();
  said.insert(said.begin(), detail);
  RunFailed message;
  message.request = request;
  message.model = model;
  message.reason = reason;
  message.detail = protocol::fit_text(joined(said, "; "), RunFailed::kDetailMaxLength);
  return message;
}

class Worker {
 public:
  Worker(Link& link, std::filesystem::path rings) : link_(link), rings_(std::move(rings)) {}

  [[nodiscard]] bool greet() {
    protocol::WorkerHello hello;
    hello.kind = protocol::WorkerHelloKind::native;
    hello.versions = hello_versions();
    return send(hello);
  }

  /// Answers the next message; false when the other end has gone.
  [[nodiscard]] bool answer_next() {
    try {
      const auto packet = link_.receive();
      return packet && answer(*packet);
    } catch (const protocol::Refused& refused) {
      return send(log_message(WorkerLogLevel::error, std::string("refused a message: ") + refused.what()));
    }
  }

 private:
  bool answer(std::span<const std::byte> packet) {
    const protocol::ToWorker message = protocol::decode_to_worker(packet);
    const FromWorker reply = std::visit([this](const auto& one) { return act(one); }, message);
    return pass_log_on() && std::visit([this](const auto& one) { return send(one); }, reply);
  }

  FromWorker act(const LoadModel& message) {
    const Clock::time_point began = Clock::now();
    try {
      auto model = std::make_unique<ServedModel>(message, rings_);
      const double load_ms = milliseconds(Clock::now() - began);
      const Latency latency = model->warm_up();
      models_.insert_or_assign(message.model, std::move(model));
      ModelLoaded loaded;
      loaded.model = message.model;
      loaded.load_ms = load_ms;
      loaded.p50_ms = latency.p50_ms;
      loaded.p99_ms = latency.p99_ms;
      return loaded;
    } catch (const std::exception& failure) {
      return failed(0, message.model, Drop::model_error, failure.what());
    }
  }

  FromWorker act(const RunModel& request) {
    const auto model = models_.find(request.model);
    if (model == models_.end()) {
      return failed(request.request, request.model, Drop::model_error,
                    "model " + request.model + " is not loaded in this worker");
    }
    try {
      return model->second->run(request);
    } catch (const RuntimeFailure& failure) {
      return failed(request.request, request.model, failure.reason(), failure.what());
    } catch (const std::exception& failure) {
      return failed(request.request, request.model, Drop::model_error, failure.what());
    }
  }

  /// What the runtime said although all went well; a model that talks at every inference does not flood infer.
  bool pass_log_on() {
    bool sent = true;
    for (const runtime_log::Line& line : runtime_log::take()) {
      if (const auto now = Clock::now(); now - second_ >= std::chrono::seconds(1)) {
        second_ = now;
        if (const int left_out = std::exchange(lines_, 0) - kLinesPerSecond; left_out > 0) {
          sent = sent && send(log_message(WorkerLogLevel::warning, std::to_string(left_out) + " more lines left out"));
        }
      }
      if (++lines_ <= kLinesPerSecond) {
        sent = sent && send(log_message(level_of(line.level), line.text));
      }
    }
    return sent;
  }

  template <typename Message>
  bool send(const Message& message) {
    protocol::encode(message, packet_);
    return link_.send(packet_);
  }

  Link& link_;
  std::filesystem::path rings_;
  std::map<std::string, std::unique_ptr<ServedModel>> models_;
  std::string packet_;
  Clock::time_point second_;
  int lines_ = 0;
};

}  // namespace

void serve(int descriptor, const std::filesystem::path& rings) {
  end_with_parent();
  for (const int number : {SIGINT, SIGTERM}) {  // infer ends its workers
    static_cast<void>(std::signal(number, SIG_IGN));
  }
  runtime_log::capture(false);
  Link link(descriptor);
  Worker worker(link, rings);
  if (!worker.greet()) {
    return;
  }
  while (worker.answer_next()) {
  }
}

}  // namespace reflexd
