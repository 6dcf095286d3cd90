// src/sync/shared_mutex.cpp -- the queue of readers and writers that wait.

#include <verge/sync/shared_mutex.hpp>

namespace verge {

namespace {

// Unlocks line_: the next in the queue becomes the first.
class unlock_at_end {
public:
    explicit unlock_at_end(mutex& line) noexcept : line_(line) {}
    ~unlock_at_end() { line_.unlock(); }
    unlock_at_end(const unlock_at_end&) = delete;
    unlock_at_end& operator=(const unlock_at_end&) = delete;

private:
    mutex& line_;
};

}  // namespace

bool shared_mutex::lock_in_line(time_point deadline, std::uint32_t as) {
    if (!line_.try_lock_until(deadline)) return false;
    // The lock that was acquired keeps the object alive until line_ is unlocked.
    const unlock_at_end next(line_);
    const std::uint32_t in_the_way = as == writer ? writer | readers : writer;
    // On a time-out: the queue continues without this waiter.
    const auto leave = [this] {
        // relaxed: marks that publish nothing, and a read-modify-write that hides no release.
        word_.fetch_and(~(line | asleep), std::memory_order_relaxed);
    };
    // relaxed: the CAS below decides.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
        if ((seen & in_the_way) == 0) {
            const std::uint32_t mine = (seen & ~(line | asleep)) + as;
            // acquire: pairs with the releases of both unlocks.  relaxed on failure: tries again.
            if (word_.compare_exchange_weak(seen, mine, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
            continue;
        }
        const std::uint32_t waiting = seen | line | asleep;
        // relaxed, twice: marks that publish nothing.
        if (seen != waiting &&
            !word_.compare_exchange_weak(seen, waiting, std::memory_order_relaxed,
                                         std::memory_order_relaxed)) {
            continue;
        }
        wait_result why{};
        try {
            why = wait_uninterrupted(word_, waiting, deadline);
        } catch (...) {
            leave();
            throw;
        }
        if (why == wait_result::timed_out) {
            leave();
            return false;
        }
        seen = word_.load(std::memory_order_relaxed);  // relaxed: the CAS above decides
    }
}

}  // namespace verge
