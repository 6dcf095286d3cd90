// src/sync/recursive_mutex.cpp -- the owner and the depth of a recursive mutex.

#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/recursive_mutex.hpp>

#include <limits>

namespace verge {

bool recursive_mutex::again(detail::sync::waiter& self) noexcept {
    // relaxed: it is the caller only if the caller stored it.
    if (owner_.load(std::memory_order_relaxed) != &self) return false;
    VERGE_ASSERT(depth_ != std::numeric_limits<std::uint32_t>::max(),
                 "verge: a recursive_mutex locked too often");
    ++depth_;
    return true;
}

void recursive_mutex::own(detail::sync::waiter& self) noexcept {
    // relaxed: for the caller itself.
    owner_.store(&self, std::memory_order_relaxed);
}

void recursive_mutex::lock() noexcept {
    detail::sync::waiter& self = detail::sync::current();
    if (again(self)) return;
    mutex_.lock();
    own(self);
}

bool recursive_mutex::try_lock() noexcept {
    detail::sync::waiter& self = detail::sync::current();
    if (again(self)) return true;
    if (!mutex_.try_lock()) return false;
    own(self);
    return true;
}

bool recursive_mutex::try_lock_until(time_point deadline) {
    detail::sync::waiter& self = detail::sync::current();
    if (again(self)) return true;
    if (!mutex_.try_lock_until(deadline)) return false;
    own(self);
    return true;
}

void recursive_mutex::unlock() noexcept {
    // relaxed: the holder has stored it.
    VERGE_ASSERT(owner_.load(std::memory_order_relaxed) == &detail::sync::current(),
                 "verge: unlock of a recursive_mutex by another than its holder");
    if (depth_ != 0) {
        --depth_;
        return;
    }
    // relaxed: the unlock below releases it.
    owner_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
}

}  // namespace verge
