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

// Set when the kernel, which had a fence, refuses one: no lock leans to anybody from then on.
constinit std::atomic<bool> refused{false};

}  // namespace

bool bias_platform::has_heavy_fence() noexcept {
    static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    return registered && !refused.load(std::memory_order_relaxed);  // relaxed: it stands for itself
}

void bias_platform::heavy_fence() noexcept {
    const int error = errno;
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        // The program has put itself into a sandbox since.  A processor does not keep a store to
        // itself for long, and not over an interrupt: each that is busy has had one by then.
        refused.store(true, std::memory_order_relaxed);  // relaxed: as above
        timespec left{0, 20'000'000};
        while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
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
