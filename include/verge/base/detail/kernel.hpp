// verge/base/detail/kernel.hpp -- the kernel seam: every call that the library makes to the system.
//
//     const int fd = os::epoll_create1(EPOLL_CLOEXEC);    // result and errno as of the call itself
//
// In production each function here is the call of the same name, after one load of a pointer that
// is null.  A test, or a simulation, replaces the kernel for the whole process:
//
//     struct poor_kernel : kernel {
//         int timerfd_create(int clock, int flags) noexcept override { return errno = EMFILE, -1; }
//     };
//     poor_kernel poor;
//     const replaced_kernel scope(poor);        // encloses the lifetime of all objects that use it
//
// What is not overridden goes to the real kernel.  The functions have the names, the arguments and
// the results of their models in libc, and report errors by errno (pthread_* ones by their result).
// scripts/check_kernel.py rejects such calls anywhere else in the library.
//
// Not here: memory from malloc; pthread_atfork(), which makes no system call; reading the
// processor's time stamp counter, which is an instruction: with a replaced kernel every clock read
// goes to it, since anchors then have a window of 0 (fast_clock.cpp).
//
// Thread safety: all of it; a replacement is called by many threads at a time.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verge::detail {

// Calls that libc has under another name, or not at all.
namespace raw {

/// FUTEX_WAIT_BITSET with an absolute CLOCK_MONOTONIC time, FUTEX_WAKE.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* until) noexcept;
int membarrier(int command) noexcept;
/// Whether a thread of this process has this kernel id: tgkill with signal 0.
int probe_thread(pid_t id) noexcept;
/// ENOSYS if the kernel, or its headers, do not have it.
int epoll_pwait2(int epoll, epoll_event* events, int room, const timespec* timeout) noexcept;
ssize_t process_madvise_self(const iovec* ranges, std::size_t count, int advice) noexcept;
int open_to_read(const char* path) noexcept;
int fcntl_get_flags(int fd) noexcept;
int fcntl_set_flags(int fd, int flags) noexcept;
int timer_slack() noexcept;                      // PR_GET_TIMERSLACK
int set_timer_slack(unsigned long ns) noexcept;  // PR_SET_TIMERSLACK

}  // namespace raw

// One line per call: its namespace, result, name, parameters and arguments.
// clang-format off
#define VERGE_KERNEL_CALLS(CALL)                                                                                       \
    /* clocks */                                                                                                       \
    CALL(, int, clock_gettime, (clockid_t clock, timespec* now), (clock, now))                                         \
    CALL(, int, clock_nanosleep, (clockid_t clock, int flags, const timespec* time, timespec* left), (clock, flags, time, left)) \
    CALL(raw, int, timer_slack, (), ())                                                                                \
    CALL(raw, int, set_timer_slack, (unsigned long ns), (ns))                                                          \
    /* threads */                                                                                                      \
    CALL(raw, long, futex, (std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* until), (word, operation, value, until)) \
    CALL(, int, pthread_create, (pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*), void* argument), (thread, attributes, main, argument)) \
    CALL(, int, pthread_join, (pthread_t thread, void** result), (thread, result))                                     \
    CALL(, int, pthread_detach, (pthread_t thread), (thread))                                                          \
    CALL(, pthread_t, pthread_self, (), ())                                                                            \
    CALL(, int, pthread_setname_np, (pthread_t thread, const char* name), (thread, name))                              \
    CALL(, int, pthread_getcpuclockid, (pthread_t thread, clockid_t* clock), (thread, clock))                          \
    CALL(, int, pthread_mutex_lock, (pthread_mutex_t* mutex), (mutex))                                                 \
    CALL(, int, pthread_mutex_trylock, (pthread_mutex_t* mutex), (mutex))                                              \
    CALL(, int, pthread_mutex_unlock, (pthread_mutex_t* mutex), (mutex))                                               \
    CALL(, int, sched_yield, (), ())                                                                                   \
    CALL(, int, sched_getaffinity, (pid_t thread, std::size_t size, cpu_set_t* set), (thread, size, set))              \
    CALL(, pid_t, gettid, (), ())                                                                                   \
    CALL(raw, int, probe_thread, (pid_t id), (id))                                                                     \
    CALL(raw, int, membarrier, (int command), (command))                                                               \
    /* signals */                                                                                                      \
    CALL(, int, pthread_sigmask, (int how, const sigset_t* to, sigset_t* before), (how, to, before))                   \
    CALL(, int, sigaction, (int number, const struct sigaction* to, struct sigaction* before), (number, to, before)) \
    CALL(, int, sigaltstack, (const stack_t* to, stack_t* before), (to, before))                                       \
    /* memory */                                                                                                       \
    CALL(, void*, mmap, (void* at, std::size_t bytes, int access, int flags, int fd, off_t offset), (at, bytes, access, flags, fd, offset))           \
    CALL(, int, munmap, (void* begin, std::size_t bytes), (begin, bytes))                                           \
    CALL(, int, madvise, (void* begin, std::size_t bytes, int advice), (begin, bytes, advice))                      \
    CALL(, int, mprotect, (void* begin, std::size_t bytes, int access), (begin, bytes, access))                     \
    CALL(raw, ssize_t, process_madvise_self, (const iovec* ranges, std::size_t count, int advice), (ranges, count, advice)) \
    /* descriptors */                                                                                                  \
    CALL(raw, int, open_to_read, (const char* path), (path))                                                           \
    CALL(, ssize_t, read, (int fd, void* data, std::size_t size), (fd, data, size))                                 \
    CALL(, ssize_t, write, (int fd, const void* data, std::size_t size), (fd, data, size))                          \
    CALL(, ssize_t, readv, (int fd, const iovec* parts, int count), (fd, parts, count))                                \
    CALL(, ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count))                               \
    CALL(, int, close, (int fd), (fd))                                                                              \
    CALL(, int, dup3, (int from, int to, int flags), (from, to, flags))                                             \
    CALL(raw, int, fcntl_get_flags, (int fd), (fd))                                                                    \
    CALL(raw, int, fcntl_set_flags, (int fd, int flags), (fd, flags))                                                  \
    CALL(, int, eventfd, (unsigned first, int flags), (first, flags))                                               \
    CALL(, int, timerfd_create, (int clock, int flags), (clock, flags))                                                \
    CALL(, int, timerfd_settime, (int fd, int flags, const itimerspec* to, itimerspec* before), (fd, flags, to, before)) \
    CALL(, int, epoll_create1, (int flags), (flags))                                                                   \
    CALL(, int, epoll_ctl, (int epoll, int operation, int fd, epoll_event* event), (epoll, operation, fd, event))      \
    CALL(, int, epoll_wait, (int epoll, epoll_event* events, int room, int timeout), (epoll, events, room, timeout))   \
    CALL(raw, int, epoll_pwait2, (int epoll, epoll_event* events, int room, const timespec* timeout), (epoll, events, room, timeout)) \
    CALL(, int, poll, (pollfd* fds, nfds_t count, int timeout), (fds, count, timeout))                                 \
    /* sockets */                                                                                                      \
    CALL(, int, socket, (int family, int type, int protocol), (family, type, protocol))                                \
    CALL(, int, connect, (int fd, const sockaddr* to, socklen_t size), (fd, to, size))                                 \
    CALL(, int, accept4, (int fd, sockaddr* from, socklen_t* size, int flags), (fd, from, size, flags))                \
    CALL(, int, bind, (int fd, const sockaddr* at, socklen_t size), (fd, at, size))                                    \
    CALL(, int, listen, (int fd, int backlog), (fd, backlog))                                                          \
    CALL(, int, shutdown, (int fd, int how), (fd, how))                                                                \
    CALL(, int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size), (fd, level, name, value, size)) \
    CALL(, int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size), (fd, level, name, value, size)) \
    CALL(, int, getsockname, (int fd, sockaddr* at, socklen_t* size), (fd, at, size))                                  \
    CALL(, int, getpeername, (int fd, sockaddr* at, socklen_t* size), (fd, at, size))                                  \
    CALL(, ssize_t, send, (int fd, const void* data, std::size_t size, int flags), (fd, data, size, flags))            \
    CALL(, ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
// clang-format on

/// A kernel that may differ from the real one.  Each function is the call itself unless overridden.
class kernel {
public:
    kernel() noexcept = default;
    kernel(const kernel&) = delete;
    kernel& operator=(const kernel&) = delete;
    virtual ~kernel() = default;

#define VERGE_KERNEL_CALL(from, result, name, parameters, arguments) \
    virtual result name parameters noexcept {                        \
        return from::name arguments;                                 \
    }
    VERGE_KERNEL_CALLS(VERGE_KERNEL_CALL)
#undef VERGE_KERNEL_CALL

    /// The replacement that is installed, or nullptr.
    [[nodiscard]] static kernel* replacement() noexcept {
        return installed.load(std::memory_order_acquire);  // acquire: pairs with replaced_kernel
    }

private:
    friend class replaced_kernel;
    static constinit std::atomic<kernel*> installed;  // written by replaced_kernel
};

/// Replaces the kernel, for the whole process, from its construction to its destruction.  Scopes
/// nest.  The replacement must live as long as a thread may be inside one of its calls: if such
/// threads outlive the scope, as that of timer_thread::shared() does, it has to be static.
class [[nodiscard]] replaced_kernel {
public:
    explicit replaced_kernel(kernel& by) noexcept
        // acq_rel: releases the replacement, for replacement(); acquires the one before it.
        : before_(kernel::installed.exchange(&by, std::memory_order_acq_rel)) {}
    ~replaced_kernel() {
        kernel::installed.store(before_, std::memory_order_release);  // release: as above
    }
    replaced_kernel(const replaced_kernel&) = delete;
    replaced_kernel& operator=(const replaced_kernel&) = delete;

private:
    kernel* before_;
};

namespace os {

#define VERGE_KERNEL_CALL(from, result, name, parameters, arguments)                    \
    inline result name parameters noexcept {                                            \
        if (kernel* const other = kernel::replacement(); other != nullptr) [[unlikely]] \
            return other->name arguments;                                               \
        return from::name arguments;                                                    \
    }
VERGE_KERNEL_CALLS(VERGE_KERNEL_CALL)
#undef VERGE_KERNEL_CALL

}  // namespace os

#undef VERGE_KERNEL_CALLS

}  // namespace verge::detail
