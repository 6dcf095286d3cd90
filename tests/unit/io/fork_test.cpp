// A context that is used on both sides of a fork.

#include "unit/io/io_fixture.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/io/boottime_timer.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/system_timer.hpp>

#include <functional>
#include <string_view>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verge {
namespace {

class Fork : public testing::TestWithParam<int> {
protected:
    struct link {
        explicit link(io_context& io) : here(io), there(io) {
            int fds[2];
            EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
            here.assign(fds[0]);
            there.assign(fds[1]);
        }
        posix::descriptor here, there;
        char data[8] = {};
    };

    // What was begun before the fork: one read of each link, timers, a post.
    void begin() {
        read(for_parent);
        read(for_child);
        steady.async_wait(count());
        date.async_wait(count());
        boot.async_wait(count());
        far.async_wait(count());
        post(io, [this] { ++completed; });
    }
    // What one side does with it.  True if all of it works.
    bool go_on(link& mine, link& other) {
        other.here.cancel();
        mine.there.write_some(buffer(std::string_view("x")));
        far.cancel();
        if (io.run() != 7 || completed != 5 || aborted != 2) return false;
        // And with new ones.
        io.restart();
        completed = 0;
        steady.expires_after(1ms);
        date.expires_after(1ms);
        steady.async_wait(count());
        date.async_wait(count());
        read(mine);
        post(io, [&] { mine.there.write_some(buffer(std::string_view("y"))); });
        return io.run() == 4 && completed == 3;
    }
    // A thread that sleeps in the loop is woken, by posts and by timers.
    bool wakes() {
        io.restart();
        auto guard = make_work_guard(io);
        runners loop(io, 1);
        occurrence posted;
        occurrence rang;
        bool ok = loop.sleep();
        post(io, [&] { posted.set(); });
        ok = ok && posted.wait();
        ok = ok && loop.sleep();
        steady.expires_after(1ms);
        steady.async_wait([&](std::error_code) { rang.set(); });
        ok = ok && rang.wait();
        guard.reset();
        loop.join();
        return ok;
    }

    io_context io{GetParam()};
    link for_parent{io};
    link for_child{io};
    steady_timer steady{io, 1ms};
    system_timer date{io, 1ms};
    boottime_timer boot{io, 1ms};
    steady_timer far{io, 1h};
    int completed = 0;
    int aborted = 0;

private:
    std::function<void(std::error_code)> count() {
        return [this](std::error_code error) { ++(error ? aborted : completed); };
    }
    void read(link& from) {
        from.here.async_read_some(buffer(from.data),
                                  [f = count()](std::error_code e, std::size_t) { f(e); });
    }
};

TEST_P(Fork, ParentAndChildGoOnApart) {
    begin();
    io.poll_one();
    EXPECT_EQ(completed, 1);
    completed = 0;
    post(io, [this] { ++completed; });
    io.notify_fork(io_context::fork_prepare);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(40);  // a hang ends as a death
        io.notify_fork(io_context::fork_child);
        const bool ok = go_on(for_child, for_parent) && (detail::has_tsan || wakes());
        ::_exit(ok ? 7 : 1);
    }
    io.notify_fork(io_context::fork_parent);
    EXPECT_TRUE(go_on(for_parent, for_child));
    EXPECT_TRUE(wakes());
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

INSTANTIATE_TEST_SUITE_P(Hints, Fork, testing::Values(concurrency_hint_safe, 1));

}  // namespace
}  // namespace verge
