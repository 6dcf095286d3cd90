// src/base/biased_lock.cpp -- the system calls of the biased lock: membarrier, the clock, tgkill.

#include <verge/base/detail/biased_lock.hpp>
#include <verge/base/detail/kernel.hpp>

#include <atomic>
#include <cerrno>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verge::detail {

namespace {

enum class fence_state : std::uint8_t { unregistered, works, refused };

// No lock gets biased unless it says `works`.
constinit std::atomic<fence_state> fence{fence_state::unregistered};

}  // namespace

void bias_platform::prepare() noexcept {
    // relaxed: it publishes nothing else.  Two threads may register the process: that is harmless,
    // and so is a fork in between, whose child registers itself with its first service.
    if (fence.load(std::memory_order_relaxed) != fence_state::unregistered) return;
    const int error = errno;
    const bool works = os::membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    errno = error;
    // relaxed: as above.
    fence.store(works ? fence_state::works : fence_state::refused, std::memory_order_relaxed);
}

bool bias_platform::has_heavy_fence() noexcept {
    return fence.load(std::memory_order_relaxed) == fence_state::works;  // relaxed: as above
}

void bias_platform::heavy_fence() noexcept {
    const int error = errno;
    if (os::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
        // The program has entered a seccomp sandbox since.  Sleep 20 ms instead: by then every
        // processor has drained its store buffer.  If the sandbox forbids sleeping too, spin.
        fence.store(fence_state::refused, std::memory_order_relaxed);  // relaxed: as above
        timespec left{0, 20'000'000};
        while (const int refused = os::clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left)) {
            if (refused == EINTR) continue;
            for (int i = 0; i < 1'000'000; ++i)
                pause();
            break;
        }
    }
    errno = error;
}

std::uint32_t bias_platform::ticks() noexcept {
    timespec now{};
    os::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000U +
                                      static_cast<std::uint64_t>(now.tv_nsec) / 1000U);
}

std::int32_t bias_platform::kernel_number() noexcept {
    return os::gettid();
}

bool bias_platform::has_ended(std::int32_t kernel_number) noexcept {
    const int error = errno;
    const bool ended = os::probe_thread(kernel_number) != 0 && errno == ESRCH;
    errno = error;
    return ended;
}

}  // namespace verge::detail
