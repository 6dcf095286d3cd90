#include "support/build.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/fibers/wait_fd.hpp>
#include <verge/sync/cancellation.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <malloc.h>

namespace {

using namespace std::chrono_literals;
using namespace verge::fibers;  // NOLINT(google-build-using-namespace): tests
using verge::fd_event;
using verge::fd_events;
using verge::this_fiber::wait_fd;

verge::time_point in(verge::duration d) {
    return verge::deadline_after(verge::steady_source{}.now(), d);
}

struct socket_pair {
    socket_pair() {
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
            throw std::system_error(errno, std::generic_category(), "socketpair");
        }
    }
    ~socket_pair() {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    socket_pair(const socket_pair&) = delete;
    socket_pair& operator=(const socket_pair&) = delete;

    void fill(int end) const {
        char block[4096] = {};
        while (::write(ends[end], block, sizeof block) > 0) {
        }
    }
    int ends[2] = {};
};

TEST(WaitFd, ReturnsWhenReady) {
    scheduler s({.max_workers = 1});
    const socket_pair pair;
    auto reader = s.spawn([&] { return wait_fd(pair.ends[0], fd_event::read); });
    auto writer = s.spawn([&] {
        EXPECT_EQ(wait_fd(pair.ends[1], fd_event::write), fd_result::ready) << "at once";
        EXPECT_EQ(::write(pair.ends[1], "x", 1), 1);
    });
    writer.join();
    EXPECT_EQ(reader.join(), fd_result::ready);
    char c = 0;
    EXPECT_EQ(::read(pair.ends[0], &c, 1), 1) << "nothing was read by the wait";
}

// Back and forth, so that each wait begins before what it waits for.
TEST(WaitFd, WakesEachTime) {
    scheduler s({.max_workers = 2});
    const socket_pair pair;
    const auto play = [&](int end, bool begins) {
        for (int i = 0; i < 2000; ++i) {
            if (begins) {
                EXPECT_EQ(::write(pair.ends[end], "x", 1), 1);
            }
            char c = 0;
            while (::read(pair.ends[end], &c, 1) != 1)
                ASSERT_EQ(wait_fd(pair.ends[end], fd_event::read, in(60s)), fd_result::ready);
            if (!begins) {
                EXPECT_EQ(::write(pair.ends[end], "x", 1), 1);
            }
        }
    };
    auto one = s.spawn([&] { play(0, true); });
    auto two = s.spawn([&] { play(1, false); });
    one.join();
    two.join();
}

TEST(WaitFd, ReturnsAtItsDeadline) {
    scheduler s({.max_workers = 1});
    const socket_pair pair;
    s.spawn([&] {
         const verge::time_point deadline = in(5ms);
         EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read, deadline), fd_result::timed_out);
         EXPECT_GE(verge::steady_source{}.now(), deadline);
         EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read, verge::time_point{}),
                   fd_result::timed_out);
     }).join();
    EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read, in(5ms)), fd_result::timed_out) << "a thread";
}

TEST(WaitFd, AnInterruptEndsTheWait) {
    scheduler s({.max_workers = 1});
    const socket_pair pair;
    std::atomic<bool> was_interrupted{false};
    auto f = s.spawn([&] {
        EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read), fd_result::interrupted);
        was_interrupted = true;
        const verge::no_unwind here;
        EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read), fd_result::stopped);
        EXPECT_EQ(wait_fd(pair.ends[0], fd_event::read), fd_result::stopped) << "stays";
    });
    f.interrupt();
    while (!was_interrupted)
        std::this_thread::yield();
    f.request_stop();
    f.join();
}

TEST(WaitFd, ReadersAndWritersOfOneSocket) {
    scheduler s({.max_workers = 2});
    const socket_pair pair;
    pair.fill(0);
    std::vector<fiber<fd_outcome>> waiting;
    for (int i = 0; i < 10; ++i) {
        waiting.push_back(s.spawn([&] { return wait_fd(pair.ends[0], fd_event::read, in(60s)); }));
        waiting.push_back(s.spawn([&] { return wait_fd(pair.ends[0], fd_event::write, in(60s)); }));
    }
    s.spawn([] { verge::this_fiber::yield(); }).join();
    char block[65536];
    while (::read(pair.ends[1], block, sizeof block) > 0) {
    }
    EXPECT_EQ(::write(pair.ends[1], "x", 1), 1);
    for (auto& each : waiting)
        EXPECT_EQ(each.join(), fd_result::ready);
}

TEST(WaitFd, AClosedPeerIsReady) {
    scheduler s({.max_workers = 1});
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    auto f = s.spawn([&] { return wait_fd(ends[0], fd_event::read, in(60s)); });
    ::close(ends[1]);
    EXPECT_EQ(f.join(), fd_result::ready);
    ::close(ends[0]);
}

TEST(WaitFd, TellsWhichOfASetCame) {
    constexpr fd_events both = fd_event::read | fd_event::write;
    static_assert(both.contains(fd_event::read) && !both.contains(fd_event::error));
    scheduler s({.max_workers = 1});
    const socket_pair pair;
    const auto wait_for = [&](int end, fd_events what) {
        return s.spawn([&pair, end, what] { return wait_fd(pair.ends[end], what, in(60s)); });
    };
    // At once.
    EXPECT_EQ(wait_for(0, both).join().came, fd_events(fd_event::write));
    pair.fill(0);
    // One of two, then the other.
    fiber<fd_outcome> reads = wait_for(0, both);
    EXPECT_FALSE(reads.wait_for(1ms));
    EXPECT_EQ(::write(pair.ends[1], "x", 1), 1);
    fd_outcome got = reads.join();
    EXPECT_EQ(got, fd_result::ready);
    EXPECT_EQ(got.came, fd_events(fd_event::read));
    char c = 0;
    EXPECT_EQ(::read(pair.ends[0], &c, 1), 1);
    fiber<fd_outcome> writes = wait_for(0, both | fd_event::error);
    EXPECT_FALSE(writes.wait_for(1ms));
    char block[65536];
    while (::read(pair.ends[1], block, sizeof block) > 0) {
    }
    got = writes.join();
    EXPECT_EQ(got, fd_result::ready);
    EXPECT_EQ(got.came, fd_events(fd_event::write));
    // Both.
    EXPECT_EQ(::write(pair.ends[1], "x", 1), 1);
    EXPECT_EQ(wait_for(0, both).join().came, both);
    EXPECT_EQ(wait_for(0, both | fd_event::error).join().came, both);
}

TEST(WaitFd, AHangUpIsEveryEventAskedFor) {
    scheduler s({.max_workers = 1});
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    constexpr fd_events asked = fd_event::read | fd_event::error;
    auto f = s.spawn([&] { return wait_fd(ends[0], asked, in(60s)); });
    EXPECT_FALSE(f.wait_for(1ms));
    ::close(ends[1]);
    EXPECT_EQ(f.join().came, asked);
    EXPECT_EQ(wait_fd(ends[0], asked).came, asked) << "at once";
    ::close(ends[0]);
}

TEST(WaitFd, OutOfBandDataIsAnError) {
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listening, any, size), 0);
    ASSERT_EQ(::listen(listening, 1), 0);
    ASSERT_EQ(::getsockname(listening, any, &size), 0);
    const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(out, any, size), 0);
    const int got = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ASSERT_GE(got, 0);
    scheduler s({.max_workers = 1});
    auto f = s.spawn([&] { return wait_fd(got, fd_event::read | fd_event::error, in(60s)); });
    EXPECT_FALSE(f.wait_for(1ms));
    EXPECT_EQ(::send(out, "!", 1, MSG_OOB), 1);
    EXPECT_TRUE(f.join().came.contains(fd_event::error));
    for (const int fd : {listening, out, got})
        ::close(fd);
}

// Sets and single events of one socket, ended by events, deadlines and interrupts at once.
TEST(WaitFd, SetsAndDeadlinesAndInterruptsRace) {
    constexpr int rounds = verge::detail::has_tsan ? 300 : 2000;
    scheduler s({.max_workers = 2});
    const socket_pair pair;
    std::atomic<bool> over{false};
    std::vector<fiber<>> waiting;
    for (int i = 0; i < 4; ++i) {
        waiting.push_back(s.spawn([&, i] {
            const fd_events what =
                i % 2 == 0 ? fd_event::read | fd_event::error : fd_events(fd_event::read);
            for (int round = 0; round < rounds; ++round) {
                const fd_outcome got = wait_fd(pair.ends[0], what, in(round % 50 * 1us));
                EXPECT_EQ(got == fd_result::ready, !got.came.empty());
                char c = 0;
                static_cast<void>(::read(pair.ends[0], &c, 1));
            }
        }));
    }
    fiber<> writer = s.spawn([&] {
        while (!over) {
            static_cast<void>(::write(pair.ends[1], "x", 1));
            for (fiber<>& each : waiting)
                each.interrupt();
            verge::this_fiber::sleep_for(20us);
        }
    });
    for (fiber<>& each : waiting)
        each.wait();
    over = true;
    writer.join();
}

#if !VERGE_HAS_SANITIZER  // no mallinfo2
// Nothing wakes the thread that asks the kernel, and what it has to forget is bounded all the same.
TEST(WaitFd, TimedOutWaitsLeaveNothing) {
    const socket_pair pair;
    pair.fill(0);  // else its registration is an event, which wakes that thread
    // On this thread, whose memory is what mallinfo2 counts.
    const auto time_out = [&](int times) {
        for (int i = 0; i < times; ++i) {
            ASSERT_EQ(wait_fd(pair.ends[0], fd_event::read | fd_event::error, in(30us)),
                      fd_result::timed_out);
        }
    };
    time_out(1000);
    const std::size_t before = ::mallinfo2().uordblks;
    time_out(20'000);
    const std::size_t after = ::mallinfo2().uordblks;
    EXPECT_LE(after, before + std::size_t{64} * 1024) << "3 MB, if each left its registration";
}
#endif

TEST(WaitFd, ADescriptorThatIsNoneIsAnError) {
    scheduler s({.max_workers = 1});
    s.spawn([] {
         EXPECT_THROW(static_cast<void>(wait_fd(-1, fd_event::read)), std::system_error);
         EXPECT_THROW(static_cast<void>(wait_fd(1 << 20, fd_event::read)), std::system_error);
         EXPECT_THROW(static_cast<void>(wait_fd(0, {})), std::invalid_argument);
     }).join();
}

TEST(WaitFd, ARegularFileIsAlwaysReady) {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(wait_fd(fd, fd_event::read), fd_result::ready);
    ::close(fd);
}

}  // namespace
