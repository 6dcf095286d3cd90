// One loop, run by some threads and used by others: a million timers, armed and cancelled by four;
// descriptors that are read, written, cancelled, closed and opened anew; posts.

#include "unit/io/io_fixture.hpp"
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/system_timer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace verge {
namespace {

using loop_steady_timer = steady_timer::rebind_executor<io_context::executor_type>::other;

template <class Timer = loop_steady_timer, int each = 250'000>
void check_that_every_wait_completes_once(int hint, int running) {
    constexpr int threads = 4;
    constexpr int window = 64;
    io_context io(hint);
    auto guard = make_work_guard(io);
    std::atomic<std::uint64_t> begun = 0;
    std::atomic<std::uint64_t> expired = 0;
    std::atomic<std::uint64_t> aborted = 0;
    std::atomic<std::uint64_t> cancelled = 0;
    std::atomic<int> early = 0;
    {
        runners loop(io, running);
        std::vector<std::thread> users;
        for (int t = 0; t < threads; ++t) {
            users.emplace_back([&, t] {
                std::mt19937 random(static_cast<unsigned>(t));
                std::vector<std::unique_ptr<Timer>> timers;
                for (int i = 0; i < window; ++i)
                    timers.push_back(std::make_unique<Timer>(io));
                for (int i = 0; i < each; ++i) {
                    Timer& timer = *timers[random() % window];
                    cancelled += timer.expires_after(std::chrono::microseconds(random() % 300));
                    const auto expiry = timer.expiry();
                    // One wait, or a second one, which may come while the first expires.
                    for (int waits = random() % 4 == 0 ? 2 : 1; waits > 0; --waits) {
                        ++begun;
                        timer.async_wait([&, expiry](std::error_code error) {
                            if (error) {
                                ++aborted;
                            } else {
                                ++expired;
                                if (Timer::clock_type::now() < expiry) ++early;
                            }
                        });
                    }
                    if (random() % 64 == 0) {
                        // Also while they expire: destroyed, and moved.
                        auto& place = timers[random() % window];
                        place = std::make_unique<Timer>(std::move(*place));
                    }
                }
                for (auto& timer : timers)
                    cancelled += timer->cancel();
            });
        }
        for (std::thread& u : users)
            u.join();
        guard.reset();
    }
    EXPECT_GT(begun, std::uint64_t{threads} * each);
    EXPECT_EQ(expired + aborted, begun);
    EXPECT_EQ(cancelled, aborted);
    EXPECT_EQ(early, 0);
}

TEST(IoStress, EveryWaitCompletesOnce) {
    check_that_every_wait_completes_once(concurrency_hint_safe, 4);
}

TEST(IoStress, EveryWaitForADateCompletesOnce) {
    check_that_every_wait_completes_once<system_timer, 50'000>(concurrency_hint_safe, 4);
}

TEST(IoStress, EveryWaitCompletesOnceWhereOneThreadRuns) {
    check_that_every_wait_completes_once(1, 1);
}

// What a connection carries: nothing but this, so that whoever reads knows whether it got what was
// sent to somebody else, through a descriptor of the same number.
using connection_name = std::uint64_t;

struct transfer_counts {
    std::atomic<std::uint64_t> begun = 0;
    std::atomic<std::uint64_t> completed = 0;
    std::atomic<std::uint64_t> received = 0;
    std::atomic<std::uint64_t> aborted = 0;
    std::atomic<std::uint64_t> strange = 0;
};

// Two ends of a connection of one thread, which the loop's threads complete operations of.
class connection {
    template <class Then>
    auto operation(Then then) {
        ++counts_.begun;
        return [this, then = std::move(then)](std::error_code error, std::size_t) {
            ++counts_.completed;
            if (!error) {
                then();
            } else if (error == error::operation_aborted) {
                ++counts_.aborted;
            }
        };
    }

public:
    connection(io_context& io, transfer_counts& counts) : here_(io), there_(io), counts_(counts) {}

    void open(connection_name name) {
        name_ = name;
        int fds[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        here_.assign(fds[0]);
        there_.assign(fds[1]);
    }
    void close() {
        here_.close();
        there_.close();
    }
    void release() {
        ::close(here_.release());
        ::close(there_.release());
    }
    void cancel() { here_.cancel(); }

    void read() {
        auto message = std::make_unique<connection_name>(0);
        const auto to = buffer(message.get(), sizeof *message);
        here_.async_read_some(to, operation([this, wanted = name_, message = std::move(message)] {
                                  ++counts_.received;
                                  if (*message != wanted) ++counts_.strange;
                              }));
    }
    void write() {
        auto message = std::make_unique<connection_name>(name_);
        const auto from = buffer(message.get(), sizeof *message);
        there_.async_write_some(from, operation([message = std::move(message)] {}));
    }
    void wait() {
        here_.async_wait(posix::descriptor::wait_read,
                         [done = operation([] {})](std::error_code e) { done(e, 0); });
    }

private:
    posix::descriptor here_, there_;
    transfer_counts& counts_;
    connection_name name_ = 0;
};

void check_that_every_transfer_completes_once(int hint, int running) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t window = 8;
    constexpr int each = 100'000;
    io_context io(hint);
    auto guard = make_work_guard(io);
    transfer_counts counts;
    std::vector<std::unique_ptr<connection>> connections;
    for (std::size_t i = 0; i < threads * window; ++i)
        connections.push_back(std::make_unique<connection>(io, counts));
    {
        runners loop(io, running);
        std::vector<std::thread> users;
        for (std::size_t t = 0; t < threads; ++t) {
            users.emplace_back([&, t] {
                std::mt19937 random(static_cast<unsigned>(t));
                connection_name name = connection_name{t} << 32;
                const auto mine = [&](std::size_t i) -> connection& {
                    return *connections[t * window + i];
                };
                for (std::size_t i = 0; i < window; ++i)
                    mine(i).open(++name);
                for (int i = 0; i < each; ++i) {
                    connection& any = mine(random() % window);
                    const unsigned what = random() % 64;
                    if (what < 30) {
                        any.write();
                    } else if (what < 50) {
                        any.read();
                    } else if (what < 56) {
                        any.wait();
                    } else if (what < 60) {
                        any.cancel();
                    } else {
                        if (what < 62)
                            any.close();
                        else
                            any.release();
                        any.open(++name);
                    }
                }
                for (std::size_t i = 0; i < window; ++i)
                    mine(i).close();
            });
        }
        for (std::thread& u : users)
            u.join();
        guard.reset();
    }
    EXPECT_EQ(counts.completed, counts.begun);
    EXPECT_EQ(counts.strange, 0U);
    EXPECT_GT(counts.received, 100U);
    EXPECT_GT(counts.aborted, 100U);
}

TEST(IoStress, EveryTransferCompletesOnce) {
    check_that_every_transfer_completes_once(concurrency_hint_safe, 4);
}

TEST(IoStress, EveryTransferCompletesOnceWhereOneThreadRuns) {
    check_that_every_transfer_completes_once(1, 1);
}

// Posts that end a loop's work over and over, from outside, with and without a sleep in between:
// each runs before run() returns, and all of one thread in their order.
TEST(IoStress, PostsBeforeTheEndRunAndInOrder) {
    constexpr int rounds = has_sanitizer ? 1'000 : 10'000;
    constexpr int posters = 2;
    constexpr int each = 3;
    for (int round = 0; round < rounds; ++round) {
        io_context io(1);
        int ran[posters] = {};
        bool in_order = true;
        std::vector<std::thread> users;
        for (int p = 0; p < posters; ++p) {
            users.emplace_back([&, p, guard = make_work_guard(io)]() mutable {
                for (int i = 0; i < each; ++i) {
                    post(io, [&, p, i] { in_order &= ran[p]++ == i; });
                }
                guard.reset();
            });
        }
        io.run();
        for (std::thread& u : users)
            u.join();
        ASSERT_TRUE(in_order);
        for (const int count : ran)
            ASSERT_EQ(count, each);
    }
}

}  // namespace
}  // namespace verge
