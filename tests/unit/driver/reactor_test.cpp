#include "support/build.hpp"
#include "unit/driver/driver_fixture.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/driver/reactor.hpp>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <dirent.h>

namespace verge {
namespace {

struct refusing_kernel : detail::kernel {
    bool refuse_timerfd = false;
    bool refuse_pwait2 = false;
    int cancelled_reads = 0;
    std::atomic<int> alarms_set{0};
    int alarm_fd = -1;
    std::vector<time_point> ends;  // of epoll_wait, that has a limit

    int timerfd_create(int clock, int flags) noexcept override {
        if (refuse_timerfd) {
            errno = EMFILE;
            return -1;
        }
        const int fd = kernel::timerfd_create(clock, flags);
        if (clock != CLOCK_MONOTONIC) alarm_fd = fd;
        return fd;
    }
    int timerfd_settime(int fd, int flags, const itimerspec* to,
                        itimerspec* before) noexcept override {
        if (fd == alarm_fd) ++alarms_set;
        return kernel::timerfd_settime(fd, flags, to, before);
    }
    ssize_t read(int fd, void* data, std::size_t size) noexcept override {
        const ssize_t result = kernel::read(fd, data, size);
        if (fd != alarm_fd || cancelled_reads == 0) return result;
        --cancelled_reads;
        errno = ECANCELED;
        return -1;
    }
    int epoll_pwait2(int epoll, epoll_event* events, int room,
                     const timespec* limit) noexcept override {
        if (refuse_pwait2) {
            errno = ENOSYS;
            return -1;
        }
        return kernel::epoll_pwait2(epoll, events, room, limit);
    }
    int epoll_wait(int epoll, epoll_event* events, int room, int limit) noexcept override {
        if (limit > 0) ends.push_back(now() + std::chrono::milliseconds(limit));
        return kernel::epoll_wait(epoll, events, room, limit);
    }
};

struct pair_of_sockets {
    pair_of_sockets() {
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    }
    ~pair_of_sockets() {
        close(0);
        close(1);
    }
    pair_of_sockets(const pair_of_sockets&) = delete;
    pair_of_sockets& operator=(const pair_of_sockets&) = delete;
    void close(int end) {
        if (fds[end] >= 0) ::close(std::exchange(fds[end], -1));
    }
    void send(int from) const { EXPECT_EQ(::write(fds[from], "x", 1), 1); }
    int fds[2];
};

// Waits until a condition holds; each wait() may end for many reasons.
template <class Condition>
bool wait_until(reactor& r, Condition&& condition, punctual_scope* punctual = nullptr) {
    const time_point limit = now() + patience;
    while (!condition()) {
        if (now() > limit) return false;
        r.wait(limit, nullptr, punctual);
    }
    return true;
}

void expect_expires_on_time(reactor& r, duration delay, punctual_scope* punctual = nullptr) {
    const time_point deadline = now() + delay;
    time_point fired = never;
    r.arm(deadline, [&] { fired = now(); });
    ASSERT_TRUE(wait_until(
        r, [&] { return fired != never; }, punctual));
    EXPECT_GE(fired, deadline);
}

TEST(Reactor, NeverExpiresEarly) {
    reactor r;
    punctual_scope punctual;
    for (const duration delay : {0ns, 1ns, 1000ns, 900'000ns, 6'000'000ns}) {
        expect_expires_on_time(r, delay);
        expect_expires_on_time(r, delay, &punctual);
    }
}

TEST(Reactor, ExpiresInOrderOfDeadline) {
    reactor r;
    std::string order;
    const time_point start = now();
    r.arm(start + 3ms, [&] { order += 'c'; });
    r.arm(start + 1ms, [&] { order += 'a'; });
    r.arm(start + 2ms, [&] { order += 'b'; });
    ASSERT_TRUE(wait_until(r, [&] { return order.size() == 3; }));
    EXPECT_EQ(order, "abc");
}

TEST(Reactor, ANearDeadlineNeedsNoTimerfdCall) {
    reactor r;
    punctual_scope punctual;
    for (int i = 0; i < 10; ++i)
        expect_expires_on_time(r, 500us, &punctual);
    EXPECT_EQ(r.stats().timer_sets, 0U);
}

TEST(Reactor, AnArmedTimeThatIsEarlyEnoughIsNotSetAgain) {
    reactor r;
    const timer_id first = r.arm(now() + 1h, [] {});
    r.wait(now());       // does not block: sets nothing
    on_own_thread([&] {  // blocks until it is interrupted: sets the timerfd once
        r.interrupt();
        r.wait(never);
    });
    r.interrupt();
    r.wait(never);
    EXPECT_EQ(r.stats().timer_sets, 1U);
    r.timers().cancel(first);
}

TEST(Reactor, ACancelledTimerDoesNotExpire) {
    reactor r;
    bool fired = false;
    const timer_id id = r.arm(now() + 1ms, [&] { fired = true; });
    EXPECT_EQ(r.timers().cancel(id), cancel_result::cancelled);
    bool later = false;
    r.arm(now() + 3ms, [&] { later = true; });
    ASSERT_TRUE(wait_until(r, [&] { return later; }));
    EXPECT_FALSE(fired);
}

TEST(Reactor, EarlierDeadlineEndsTheWait) {
    for (const bool refuse : {false, true}) {
        refusing_kernel system;
        system.refuse_timerfd = refuse;
        const detail::replaced_kernel scope(system);
        reactor r;
        r.arm(now() + 1h, [] {});
        std::atomic<pid_t> tid = 0;
        std::atomic<bool> fired = false;
        std::thread waiter([&] {
            tid = static_cast<pid_t>(::syscall(SYS_gettid));
            EXPECT_TRUE(wait_until(r, [&] { return fired.load(); }));
        });
        ASSERT_TRUE(eventually([&] { return tid != 0; }));
        ASSERT_TRUE(falls_asleep(tid));
        r.arm(now() + 1ms, [&] { fired = true; });
        waiter.join();
        EXPECT_TRUE(fired);
    }
}

TEST(Reactor, InterruptIsNotLost) {
    reactor r;
    r.interrupt();
    r.wait(never);  // or the test hangs
    std::atomic<pid_t> tid = 0;
    std::atomic<bool> over = false;
    std::thread waiter([&] {
        tid = static_cast<pid_t>(::syscall(SYS_gettid));
        while (!over)  // a stop of the process ends a wait too
            r.wait(never);
    });
    ASSERT_TRUE(eventually([&] { return tid != 0; }));
    ASSERT_TRUE(falls_asleep(tid));
    over = true;
    r.interrupt();
    waiter.join();
    EXPECT_EQ(r.stats().interrupts, 2U);
}

TEST(Reactor, WaitsNoLongerThanAsked) {
    reactor r;
    const time_point until = now() + 2ms;
    std::size_t waits = 0;
    for (; now() < until && waits < 1000; ++waits)
        EXPECT_EQ(r.wait(until), 0U);
    EXPECT_LT(waits, 10U);
    EXPECT_EQ(r.wait(time_point::min()), 0U);
}

TEST(Reactor, WorksWithoutTimerfd) {
    refusing_kernel system;
    system.refuse_timerfd = true;
    const detail::replaced_kernel scope(system);
    reactor r;
    expect_expires_on_time(r, 300us);
    EXPECT_EQ(r.stats().timer_sets, 0U);
}

TEST(Reactor, WorksWithoutTimerfdAndPwait2) {
    refusing_kernel system;
    system.refuse_timerfd = true;
    system.refuse_pwait2 = true;
    const detail::replaced_kernel scope(system);
    reactor r;
    expect_expires_on_time(r, 100'500us);
    system.ends.clear();
    const time_point far = now() + 1h + 500us;
    const timer_id id = r.arm(far, [] {});
    r.interrupt();
    r.wait(never);
    ASSERT_EQ(system.ends.size(), 1U);
    EXPECT_GE(system.ends[0], far) << "rounded up";
    r.timers().cancel(id);
}

TEST(Reactor, ReadableIsToldOnce) {
    reactor r;
    pair_of_sockets s;
    reactor::descriptor* const d = r.add(s.fds[0]);
    int calls = 0;
    r.wait_for(*d, fd_event::read, [&](std::error_code error) {
        EXPECT_FALSE(error);
        ++calls;
    });
    EXPECT_EQ(r.wait(now()), 0U);
    s.send(1);
    ASSERT_TRUE(wait_until(r, [&] { return calls == 1; }));
    s.send(1);
    r.wait(now());
    EXPECT_EQ(calls, 1);
    r.remove(d);
}

TEST(Reactor, WhatIsReadyAlreadyIsToldAtOnce) {
    reactor r;
    pair_of_sockets s;
    s.send(1);
    reactor::descriptor* const d = r.add(s.fds[0]);
    int calls = 0;
    r.wait_for(*d, fd_event::write, [&](std::error_code) { ++calls; });
    r.wait_for(*d, fd_event::read, [&](std::error_code) { ++calls; });
    EXPECT_EQ(calls, 2);
    r.remove(d);
}

TEST(Reactor, AHangUpEndsReadersAndWriters) {
    reactor r;
    pair_of_sockets s;
    char filler[4096] = {};
    while (::write(s.fds[0], filler, sizeof filler) > 0) {
    }
    reactor::descriptor* const d = r.add(s.fds[0]);
    int calls = 0;
    r.wait_for(*d, fd_event::read, [&](std::error_code) { ++calls; });
    r.wait_for(*d, fd_event::write, [&](std::error_code) { ++calls; });
    EXPECT_EQ(calls, 0);
    s.close(1);
    EXPECT_TRUE(wait_until(r, [&] { return calls == 2; }));
    r.remove(d);
}

TEST(Reactor, OperationsOfOneKindEndInOrder) {
    reactor r;
    pair_of_sockets s;
    reactor::descriptor* const d = r.add(s.fds[0]);
    std::string order;
    for (const char name : {'a', 'b', 'c'})
        r.wait_for(*d, fd_event::read, [&order, name](std::error_code) { order += name; });
    s.send(1);
    ASSERT_TRUE(wait_until(r, [&] { return order.size() == 3; }));
    EXPECT_EQ(order, "abc");
    r.remove(d);
}

TEST(Reactor, CancelledOperationsEndOnce) {
    reactor r;
    pair_of_sockets s;
    reactor::descriptor* const d = r.add(s.fds[0]);
    int cancelled = 0;
    const auto count = [&](std::error_code error) {
        cancelled += error == std::errc::operation_canceled ? 1 : 100;
    };
    r.wait_for(*d, fd_event::read, count);
    r.wait_for(*d, fd_event::read, count);
    r.wait_for(*d, fd_event::error, count);
    EXPECT_EQ(r.cancel(*d, fd_event::read), 2U);
    EXPECT_EQ(cancelled, 2);
    EXPECT_EQ(r.cancel(*d), 1U);
    EXPECT_EQ(r.cancel(*d), 0U);
    s.send(1);
    r.wait(now());
    EXPECT_EQ(cancelled, 3);
    r.remove(d);
}

TEST(Reactor, AReusedFdGetsNoOldEvents) {
    reactor r;
    pair_of_sockets old;
    reactor::descriptor* const d = r.add(old.fds[0]);
    int calls = 0;
    std::error_code last;
    const auto note = [&](std::error_code error) {
        ++calls;
        last = error;
    };
    r.wait_for(*d, fd_event::read, note);
    r.remove(d);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(last, std::errc::operation_canceled);
    old.send(1);
    const int number = old.fds[0];
    old.close(0);
    pair_of_sockets fresh;  // the same number again
    reactor::descriptor* const again = r.add(number);
    r.wait_for(*again, fd_event::read, note);
    r.wait(now());
    EXPECT_EQ(calls, 1);
    r.remove(again);
    EXPECT_EQ(calls, 2);
}

TEST(Reactor, DestructionEndsWhatIsPending) {
    pair_of_sockets s;
    std::atomic<int> alive = 0;
    int cancelled = 0;
    {
        reactor r;
        reactor::descriptor* const d = r.add(s.fds[0]);
        r.wait_for(*d, fd_event::read, [&, c = counted(alive)](std::error_code) { ++cancelled; });
        r.arm(now() + 1h, [c = counted(alive)] {});
        EXPECT_EQ(alive, 2);
    }
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(cancelled, 1);
}

TEST(Reactor, ARegularFileIsAlwaysReady) {
    reactor r;
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    reactor::descriptor* const d = r.add(fd);
    bool called = false;
    r.wait_for(*d, fd_event::read, [&](std::error_code) { called = true; });
    EXPECT_TRUE(called);
    r.remove(d);
    ::close(fd);
    EXPECT_THROW(static_cast<void>(r.add(fd)), std::system_error);
}

struct counting_watcher final : clock_watcher {
    void clock_moved(void*) noexcept override { ++moves; }
    int moves = 0;
};

duration realtime_now() {
    return std::chrono::system_clock::now().time_since_epoch();
}

TEST(Reactor, AnAlarmOfTheDateGoesOff) {
    reactor r;
    counting_watcher watcher;
    r.watch(alarm_clock::realtime, &watcher);
    ASSERT_TRUE(r.set_alarm(alarm_clock::realtime, realtime_now() + 1ms));
    EXPECT_TRUE(wait_until(r, [&] { return watcher.moves == 1; }));
    ASSERT_TRUE(r.set_alarm(alarm_clock::realtime, realtime_now() - 1h));
    EXPECT_TRUE(wait_until(r, [&] { return watcher.moves == 2; }));
    r.watch(alarm_clock::realtime, nullptr);
}

TEST(Reactor, AnAlarmThatNanosecondsCannotHoldDoesNotGoOff) {
    reactor r;
    counting_watcher watcher;
    r.watch(alarm_clock::realtime, &watcher);
    ASSERT_TRUE(r.set_alarm(alarm_clock::realtime, std::chrono::hours::max()));
    r.wait(time_point{});
    EXPECT_EQ(watcher.moves, 0);
    ASSERT_TRUE(r.set_alarm(alarm_clock::realtime, std::chrono::hours::min()));
    EXPECT_TRUE(wait_until(r, [&] { return watcher.moves == 1; })) << "the past has come";
    r.watch(alarm_clock::realtime, nullptr);
}

TEST(Reactor, AChangeOfDateIsToldAndWatchedForAgain) {
    refusing_kernel system;
    const detail::replaced_kernel scope(system);
    reactor r;
    counting_watcher watcher;
    r.watch(alarm_clock::realtime, &watcher);
    system.cancelled_reads = 1;  // as the kernel answers when the date was set
    ASSERT_TRUE(r.set_alarm(alarm_clock::realtime, realtime_now() + 1ms));
    EXPECT_TRUE(wait_until(r, [&] { return watcher.moves == 1; }));
    EXPECT_EQ(system.alarms_set, 2);
}

TEST(Reactor, AnAlarmOfARefusedClockIsRefused) {
    refusing_kernel system;
    system.refuse_timerfd = true;
    const detail::replaced_kernel scope(system);
    reactor r;
    EXPECT_FALSE(r.set_alarm(alarm_clock::boottime, 1s));
}

TEST(Reactor, EveryFdIsCloseOnExec) {
    const auto not_closed = [] {
        int count = 0;
        DIR* const dir = ::opendir("/proc/self/fd");
        while (const dirent* entry = ::readdir(dir)) {
            const int flags = ::fcntl(std::atoi(entry->d_name), F_GETFD);
            if (entry->d_name[0] != '.' && flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
        }
        ::closedir(dir);
        return count;
    };
    const int before = not_closed();
    reactor r;
    EXPECT_TRUE(r.set_alarm(alarm_clock::realtime, 1s));
    EXPECT_TRUE(r.set_alarm(alarm_clock::boottime, 1s));
    EXPECT_EQ(not_closed(), before);
}

#if !VERGE_HAS_TSAN  // TSan's runtime does not follow a fork with threads
TEST(Reactor, AForkedChildGoesOnByItself) {
    reactor r;
    pair_of_sockets s;
    reactor::descriptor* const d = r.add(s.fds[0]);
    const int result = in_child([&] {
        r.restart_after_fork();
        int calls = 0;
        r.wait_for(*d, fd_event::read, [&](std::error_code) { ++calls; });
        r.arm(now() + 1ms, [&] { ++calls; });
        s.send(1);
        return wait_until(r, [&] { return calls == 2; }) ? 7 : 1;
    });
    EXPECT_EQ(result, 7);
    r.remove(d);
}
#endif

}  // namespace
}  // namespace verge
