// How many threads a model's kernels run on.
#pragma once

#include <cstdint>
#include <memory>

namespace reflexd {

/// A model's share in the runtime's one thread pool.
///
/// A delegate keeps the pool it found when its model was loaded, and giving the pool another size frees it under such a
/// delegate. So the pool's size is settled by the first model that wants more than one thread and stays while any model
/// uses it. A model of one thread uses no pool at all: its kernels run in the calling thread.
class ThreadShare {
 public:
  /// @param count threads, the calling one included, from 1.
  /// @throws std::runtime_error the pool has another size and is in use, or did not take this one.
  explicit ThreadShare(std::uint32_t count);

  /// To be held by the calling thread while the runtime loads or runs the model.
  class Use {
   public:
    explicit Use(const ThreadShare& share) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Use(Use&&) = delete;
    Use& operator=(Use&&) = delete;

   private:
    bool before_;
  };

 private:
  std::shared_ptr<const std::uint32_t> pool_;  // null: no pool; shared by all models that use it
};

}  // namespace reflexd
