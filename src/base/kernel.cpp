// src/base/kernel.cpp -- calls that libc has under another name, or not at all.

#include <verge/base/detail/kernel.hpp>

#include <cerrno>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace verge::detail {

constinit std::atomic<kernel*> kernel::installed{nullptr};

namespace raw {

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* until) noexcept {
    return ::syscall(SYS_futex, word, operation, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

int membarrier(int command) noexcept {
    return static_cast<int>(::syscall(SYS_membarrier, command, 0U, 0));
}

int probe_thread(pid_t id) noexcept {
    return static_cast<int>(::syscall(SYS_tgkill, ::getpid(), id, 0));
}

int epoll_pwait2([[maybe_unused]] int epoll, [[maybe_unused]] epoll_event* events,
                 [[maybe_unused]] int room, [[maybe_unused]] const timespec* timeout) noexcept {
#ifdef SYS_epoll_pwait2
    return static_cast<int>(
        ::syscall(SYS_epoll_pwait2, epoll, events, room, timeout, nullptr, std::size_t{0}));
#else
    errno = ENOSYS;
    return -1;
#endif
}

// Linux 6.15 accepts many ranges of the calling process, and flushes the TLBs of the other
// processors once for all of them: seven times as fast as range by range, while another thread
// runs.
ssize_t process_madvise_self([[maybe_unused]] const iovec* ranges,
                             [[maybe_unused]] std::size_t count,
                             [[maybe_unused]] int advice) noexcept {
#ifdef SYS_process_madvise
    constexpr int own_process = -10000;  // PIDFD_SELF
    return ::syscall(SYS_process_madvise, own_process, ranges, count, advice, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

int open_to_read(const char* path) noexcept {
    return ::open(path, O_RDONLY | O_CLOEXEC);
}

int fcntl_get_flags(int fd) noexcept {
    return ::fcntl(fd, F_GETFL);
}

int fcntl_set_flags(int fd, int flags) noexcept {
    return ::fcntl(fd, F_SETFL, flags);
}

int timer_slack() noexcept {
    return ::prctl(PR_GET_TIMERSLACK);
}

int set_timer_slack(unsigned long ns) noexcept {
    return ::prctl(PR_SET_TIMERSLACK, ns);
}

}  // namespace raw

}  // namespace verge::detail
