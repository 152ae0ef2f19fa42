#include "threads.hpp"

#include <executorch/extension/threadpool/threadpool_guard.h>

#include <cstddef>
#include <stdexcept>
#include <string>

// The SDK has the library but not this header of its own: the two functions used, as the library exports them.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  [[nodiscard]] std::size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(std::uint32_t count);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace reflexd {
namespace {

using executorch::extension::threadpool::get_threadpool;
using executorch::extension::threadpool::NoThreadPoolGuard;

void size_pool(std::uint32_t count) {
  auto* pool = get_threadpool();
  if (pool == nullptr || !pool->_unsafe_reset_threadpool(count) || pool->get_thread_count() != count) {
    throw std::runtime_error("threads: expected a pool of " + std::to_string(count) + ", the runtime did not make it");
  }
}

/// A share in the pool, made `count` wide if nobody uses it; for one thread no share, and no idle threads either.
std::shared_ptr<const std::uint32_t> share_pool(std::uint32_t count) {
  static std::weak_ptr<const std::uint32_t> in_use;
  auto pool = in_use.lock();
  if (pool == nullptr) {
    size_pool(count);
  }
  if (count == 1) {
    return nullptr;
  }
  if (pool != nullptr && *pool != count) {
    throw std::runtime_error("threads: " + std::to_string(count) +
                             " asked for, but models of this worker share a pool of " + std::to_string(*pool) +
                             ": give all models of a worker that number, or 1");
  }
  if (pool == nullptr) {
    pool = std::make_shared<const std::uint32_t>(count);
    in_use = pool;
  }
  return pool;
}

}  // namespace

ThreadShare::ThreadShare(std::uint32_t count) : pool_(share_pool(count)) {}

ThreadShare::Use::Use(const ThreadShare& share) noexcept : before_(NoThreadPoolGuard::is_enabled()) {
  NoThreadPoolGuard::set_enabled(share.pool_ == nullptr);
}

ThreadShare::Use::~Use() { NoThreadPoolGuard::set_enabled(before_); }

}  // namespace reflexd
