#include <verge/base/detail/biased_lock.hpp>

#include <atomic>
#include <cerrno>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace verge::detail {

namespace {

bool membarrier(int command) noexcept {
    return ::syscall(SYS_membarrier, command, 0U, 0) == 0;
}

// Whether the kernel has a fence, and has not refused one since: else no lock leans to anybody.
constinit std::atomic<bool> fence_works{false};

// Before main(): with several threads it takes the kernel some 15 ms, which nobody is to wait for
// under a lock, and a fork could cut it in two.
[[maybe_unused]] const bool asked = [] {
    const int error = errno;
    // relaxed: it stands for itself.
    fence_works.store(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
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
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        // The program has put itself into a sandbox since.  A processor does not keep a store to
        // itself for so long.  Should the sandbox forbid to sleep as well, the pauses do.
        fence_works.store(false, std::memory_order_relaxed);  // relaxed: as above
        timespec left{0, 20'000'000};
        while (::nanosleep(&left, &left) != 0) {
            if (errno == EINTR) continue;
            for (int i = 0; i < 1'000'000; ++i)
                pause();
            break;
        }
    }
    errno = error;
}

std::uint32_t bias_platform::ticks() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000U +
                                      static_cast<std::uint64_t>(now.tv_nsec) / 1000U);
}

std::int32_t bias_platform::kernel_number() noexcept {
    return ::gettid();
}

bool bias_platform::has_ended(std::int32_t kernel_number) noexcept {
    const int error = errno;
    const bool ended = ::syscall(SYS_tgkill, ::getpid(), kernel_number, 0) != 0 && errno == ESRCH;
    errno = error;
    return ended;
}

}  // namespace verge::detail
