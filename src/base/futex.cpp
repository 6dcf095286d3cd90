#include <verge/base/parker.hpp>

#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verge {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "the kernel reads the word as 32 bits");

void futex_platform::wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                          time_point deadline) noexcept {
    timespec at{};
    const timespec* until = nullptr;
    if (deadline != never) {
        // A time before the epoch of CLOCK_MONOTONIC has passed, but the kernel says EINVAL to it.
        if (deadline < time_point{}) return;
        // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so an early return
        // (signal, spurious wake) cannot stretch the total wait, as a relative time would.
        constexpr long long per_second = 1'000'000'000;
        const long long ns = deadline.time_since_epoch().count();
        at.tv_sec = static_cast<time_t>(ns / per_second);
        at.tv_nsec = static_cast<long>(ns % per_second);
        until = &at;
    }
    // The result is ignored on purpose: woken, expired, interrupted and "word changed" all mean
    // "look again", which is what every caller does.
    ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, until, nullptr,
              FUTEX_BITSET_MATCH_ANY);
}

void futex_platform::wake_one(std::atomic<std::uint32_t>& word) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void futex_platform::wake_all(std::atomic<std::uint32_t>& word) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max(), nullptr,
              nullptr, 0);
}

}  // namespace verge
