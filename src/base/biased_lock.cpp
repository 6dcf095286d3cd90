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

// Whether membarrier is registered and has not been refused since.  If not, no lock gets biased.
constinit std::atomic<bool> fence_works{false};

// Registered before main(): with several threads it takes the kernel about 15 ms, too long to do
// under a lock, and a fork could happen in the middle.
[[maybe_unused]] const bool asked = [] {
    const int error = errno;
    // relaxed: it stands for itself.
    fence_works.store(os::membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0,
                      std::memory_order_relaxed);
    errno = error;
    return true;
}();

}  // namespace

bool bias_platform::has_heavy_fence() noexcept {
    return fence_works.load(std::memory_order_relaxed);  // relaxed: as above
}

void bias_platform::heavy_fence() noexcept {
    const int error = errno;
    if (os::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
        // The program has entered a seccomp sandbox since.  Sleep 20 ms instead: by then every
        // processor has drained its store buffer.  If the sandbox forbids sleeping too, spin.
        fence_works.store(false, std::memory_order_relaxed);  // relaxed: as above
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
