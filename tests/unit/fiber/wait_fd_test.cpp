#include <verge/fiber/scheduler.hpp>
#include <verge/fiber/this_fiber.hpp>
#include <verge/fiber/wait_fd.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using namespace verge::fibers;  // NOLINT(google-build-using-namespace): tests
using verge::fd_event;
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
    std::vector<fiber<fd_result>> waiting;
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

TEST(WaitFd, ADescriptorThatIsNoneIsAnError) {
    scheduler s({.max_workers = 1});
    s.spawn([] {
         EXPECT_THROW(wait_fd(-1, fd_event::read), std::system_error);
         EXPECT_THROW(wait_fd(1 << 20, fd_event::read), std::system_error);
     }).join();
}

TEST(WaitFd, ARegularFileIsAlwaysReady) {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(wait_fd(fd, fd_event::read), fd_result::ready);
    ::close(fd);
}

}  // namespace
