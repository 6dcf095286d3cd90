#include <verge/base/parker.hpp>

#include <cerrno>
#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verge {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "the kernel reads the word as 32 bits");

namespace {

// Its result is ignored, and so errno stays as it was: a fiber that sleeps keeps its own.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* until) noexcept {
    const int kept = errno;
    ::syscall(SYS_futex, &word, operation, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
    errno = kept;
}

}  // namespace

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
    futex(word, FUTEX_WAIT_BITSET_PRIVATE, expected, until);
}

void futex_platform::wake_one(std::atomic<std::uint32_t>& word) noexcept {
    futex(word, FUTEX_WAKE_PRIVATE, 1, nullptr);
}

void futex_platform::wake_all(std::atomic<std::uint32_t>& word) noexcept {
    futex(word, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max(), nullptr);
}

}  // namespace verge
