// What an inference costs with nothing around it: a loop over a program, one thread, at a given rate, on noise.
// Prints {"load_ms": ..., "forward_ms": [...]}.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/extension/threadpool/threadpool_guard.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using executorch::extension::make_tensor_ptr;
using executorch::extension::TensorPtr;
using executorch::extension::module::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::TensorInfo;
using executorch::runtime::etensor::ScalarType;

double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// Noise for frames, zeros for anything else.
TensorPtr input(const TensorInfo& info) {
  std::vector<std::uint8_t> data(info.nbytes());
  if (info.scalar_type() == ScalarType::Byte) {
    std::uint32_t noise = 1;
    for (std::uint8_t& byte : data) {
      noise = noise * 1664525U + 1013904223U;
      byte = static_cast<std::uint8_t>(noise >> 24U);
    }
  }
  return make_tensor_ptr({info.sizes().begin(), info.sizes().end()}, std::move(data), {}, {}, info.scalar_type());
}

class BareLoop {
 public:
  explicit BareLoop(const std::string& program) : module_(program, Module::LoadMode::Mmap) {
    if (module_.load_method("forward") != Error::Ok) {
      throw std::runtime_error(program + ": expected a program with a method forward");
    }
    const auto meta = module_.method_meta("forward");
    for (std::size_t index = 0; index < meta->num_inputs(); ++index) {
      tensors_.push_back(input(*meta->input_tensor_meta(index)));
      inputs_.emplace_back(*tensors_.back());
    }
  }

  /// Time of one inference, ms.
  double forward() {
    const Clock::time_point began = Clock::now();
    const bool done = module_.forward(inputs_).ok();
    const double time = milliseconds(Clock::now() - began);
    if (!done) {
      throw std::runtime_error("the inference failed");
    }
    return time;
  }

 private:
  Module module_;
  std::vector<TensorPtr> tensors_;
  std::vector<EValue> inputs_;
};

void run(const std::string& package, int runs, double rate_hz) {
  const executorch::extension::threadpool::NoThreadPoolGuard one_thread;
  const Clock::time_point began = Clock::now();
  BareLoop loop(package + "/model.pte");
  std::cout << R"({"load_ms": )" << milliseconds(Clock::now() - began) << R"(, "forward_ms": [)";
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 / rate_hz));
  Clock::time_point due = Clock::now();
  for (int count = 0; count < runs; ++count) {
    due += period;
    std::this_thread::sleep_until(due);
    std::cout << (count > 0 ? ", " : "") << loop.forward();
  }
  std::cout << "]}\n";
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 4) {
      throw std::runtime_error("usage: bare-loop PACKAGE RUNS RATE_HZ");
    }
    run(words[1], std::stoi(words[2]), std::stod(words[3]));
    return 0;
  } catch (const std::exception& failure) {
    std::cerr << "bare-loop: " << failure.what() << "\n";
    return 1;
  }
}
