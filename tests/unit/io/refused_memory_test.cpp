// What happens when memory is refused: at each allocation in turn, an operation either throws and
// leaves nothing behind, or its handler is called once.

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/io/io_fixture.hpp"
#include <verge/io/cancel_after.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detail/thread_cache.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/signal_set.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/system_timer.hpp>
#include <verge/io/use_future.hpp>

#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#if VERGE_CAN_REFUSE_MEMORY
namespace verge {
namespace {

// Holds all memory that this thread could have without asking operator new.
class no_recycled_memory {
public:
    no_recycled_memory() {
        for (std::size_t size = 24; size < 320; size += 16) {
            for (;;) {
                const failing_new next(1);
                try {
                    held_ = ::new (detail::io::allocate_cached(size)) block{held_, size};
                } catch (const std::bad_alloc&) {
                    break;
                }
            }
        }
    }
    ~no_recycled_memory() {
        while (held_ != nullptr) {
            block* const first = std::exchange(held_, held_->next);
            detail::io::deallocate_cached(first, first->size);
        }
    }
    no_recycled_memory(const no_recycled_memory&) = delete;
    no_recycled_memory& operator=(const no_recycled_memory&) = delete;

private:
    struct block {
        block* next;
        std::size_t size;
    };
    block* held_ = nullptr;
};

// From now on the next allocation of this thread is refused, until the end of the scope.
struct refused_next {
    no_recycled_memory none;
    failing_new next{1};
};

int lowest_free_fd() {
    const int fd = ::dup(0);
    ::close(fd);
    return fd;
}

// ---- strands ------------------------------------------------------------------------------------

template <class Strand>
void take_a_turn_without_memory(io_context& io, const Strand& one, bool throws) {
    std::string order;
    std::optional<refused_next> refused;
    post(one, [&] {
        post(one, [&] { order += 'b'; });
        post(one, [&] { order += 'c'; });
        refused.emplace();
        order += 'a';
        if (throws) throw 1;
    });
    if (throws) {
        EXPECT_THROW(io.run(), int);
    }
    io.run();
    refused.reset();
    EXPECT_EQ(order, "abc");
}

TEST(StrandWithoutMemory, TakesItsNextTurn) {
    io_context io;
    for (const bool throws : {false, true}) {
        take_a_turn_without_memory(io, make_strand(io), throws);
        io.restart();
        take_a_turn_without_memory(io, make_strand(any_io_executor(io.get_executor())), throws);
        io.restart();
        take_a_turn_without_memory(io, io_context::strand(io), throws);
        io.restart();
    }
}

// ---- a clock's queue ----------------------------------------------------------------------------

struct idle_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<idle_clock>;
    static time_point now() noexcept { return current; }
    static inline time_point current{};
};
struct look_at_once {
    static idle_clock::duration to_wait_duration(const idle_clock::duration&) { return {}; }
};
using idle_timer = basic_waitable_timer<idle_clock, look_at_once>;

// The thread that looks has no room for the next alarm yet, and gets none.
TEST(ClockQueueWithoutMemory, EndsTheWaitsThatItCannotWatch) {
    idle_clock::current = {};
    int aborted = 0;
    int fired = 0;
    for (int nth = 1; fired == 0; ++nth) {
        ASSERT_LT(nth, 20);
        io_context io;
        idle_timer timer(io, 1s);
        idle_timer never(io, (idle_clock::time_point::max)());
        int calls = 0;
        int ended = 0;  // while memory was refused
        timer.async_wait([&](std::error_code error) {
            ++calls;
            ++(error ? aborted : fired);
            EXPECT_TRUE(!error || error == error::operation_aborted);
        });
        never.async_wait([&](std::error_code) { ++calls; });
        std::thread([&] {
            {
                const no_recycled_memory none;
                const failing_new refuse(nth);
                std::size_t handlers = 0;
                for (int i = 0; i < 3 && !refuse.struck(); ++i)
                    handlers += io.poll();
                EXPECT_LE(handlers, 1U);
            }
            ended = calls;
            idle_clock::current += 1s;
            if (ended == 0) io.run_one_for(10s);
            idle_clock::current = {};
        }).join();
        EXPECT_EQ(calls, 1);
        never.cancel();
        io.restart();
        EXPECT_EQ(io.run_for(10s), 1U);
    }
    EXPECT_GE(aborted, 1);
}

// Timers of a clock that wait: the queue's array grows at some of them.
struct waiting_timers {
    void add(int count) {
        for (int i = 0; i < count; ++i) {
            all.push_back(std::make_unique<idle_timer>(io, 1s));
            all.back()->async_wait([this](std::error_code) { ++calls; });
        }
    }
    std::size_t fire() {
        idle_clock::current += 1s;
        const std::size_t ran = io.run_for(10s);
        idle_clock::current = {};
        return ran;
    }
    int calls = 0;
    io_context io;
    std::vector<std::unique_ptr<idle_timer>> all;
};

TEST(ClockQueueWithoutMemory, IsWholeWhenItCannotGrow) {
    idle_clock::current = {};
    int refused = 0;
    for (int before = 1; before <= 20; ++before) {
        waiting_timers others;
        others.add(before);
        int calls = 0;
        const auto handler = [&](std::error_code) { ++calls; };
        steady_timer ended(others.io, 1h);
        ended.async_wait(handler);
        ended.cancel();
        EXPECT_EQ(others.io.poll(), 1U);  // leaves memory for the next wait, but not for its place
        idle_timer timer(others.io, 2s);  // not the earliest: it needs no alarm
        bool begun = true;
        {
            const failing_new next(1);
            try {
                timer.async_wait(handler);
            } catch (const std::bad_alloc&) {
                begun = false;
            }
            EXPECT_EQ(next.struck(), !begun);
        }
        if (!begun) ++refused;
        EXPECT_EQ(timer.cancel(), begun ? 1U : 0U);
        EXPECT_EQ(others.fire(), static_cast<std::size_t>(before) + (begun ? 1 : 0));
        EXPECT_EQ(others.calls, before);
        EXPECT_EQ(calls, begun ? 2 : 1);
    }
    EXPECT_GE(refused, 1);
    EXPECT_LT(refused, 20);
}

TEST(ClockQueueWithoutMemory, AFirstWaitTakesNoneIfThereIsRoom) {
    idle_clock::current = {};
    waiting_timers timers;
    timers.add(5);
    timers.all[3]->cancel();  // leaves room
    EXPECT_EQ(timers.io.poll(), 1U);
    idle_timer fresh(timers.io, 1s);
    idle_timer moved(timers.io);
    int calls = 0;
    {
        const failing_new next(1);
        fresh.async_wait([&](std::error_code) { ++calls; });
        moved = std::move(fresh);
        EXPECT_FALSE(next.struck());
    }
    EXPECT_EQ(timers.fire(), 5U);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(timers.calls, 5);
}

// ---- all operations -----------------------------------------------------------------------------

// What the operations need.
struct world {
    world() {
        int fds[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        here.assign(fds[0]);
        there.assign(fds[1]);
        EXPECT_EQ(there.write_some(buffer(std::string_view("x"))), 1U);
    }
    io_context io;
    strand<io_context::executor_type> one{make_strand(io)};
    steady_timer timer{io, 1ms};
    system_timer date{io, std::chrono::system_clock::now() + 1ms};
    periodic_timer period{io, 1ms};
    posix::descriptor here{io};
    posix::descriptor there{io};
    signal_set signals{io};
    cancellation_signal signal;
    ip::tcp::acceptor acceptor{io, {ip::address::loopback_v4(), 0}};
    ip::tcp::socket client{io};
    ip::tcp::socket server{io};
    char data[8] = {};
};

// The handler of an operation: alive as long as it may be called.
struct note {
    int* calls;
    std::shared_ptr<int> alive;
    template <class... Results>
    void operator()(Results&&...) const {
        ++*calls;
    }
};

struct operation_case {
    const char* name;
    void (*begin)(world& w, note handler);
    void (*prepare)(world& w) = nullptr;  // with memory
    bool lingers = false;                 // what threw is destroyed by the loop
    friend std::ostream& operator<<(std::ostream& to, const operation_case& c) {
        return to << c.name;
    }
};

class WithoutMemory : public testing::TestWithParam<operation_case> {};

// Refused when it begins, in the call; or later, inside the loop.
TEST_P(WithoutMemory, ThrowsOrCallsTheHandlerOnce) {
    const int free = lowest_free_fd();
    for (const bool in_the_call : {true, false}) {
        for (int nth = 1;; ++nth) {
            ASSERT_LT(nth, 100);
            const auto alive = std::make_shared<int>();
            int calls = 0;
            bool threw = false;
            bool struck = false;
            {
                world w;
                if (GetParam().prepare != nullptr) GetParam().prepare(w);
                {
                    note handler{&calls, alive};
                    const no_recycled_memory none;
                    const failing_new refuse(in_the_call ? nth : 0);
                    try {
                        GetParam().begin(w, std::move(handler));
                    } catch (const std::bad_alloc&) {
                        threw = true;
                    }
                    struck = in_the_call && refuse.struck();
                }
                EXPECT_TRUE(!threw || GetParam().lingers || alive.use_count() == 1)
                    << "the " << nth << "th";
                {
                    const no_recycled_memory none;
                    const failing_new refuse(in_the_call ? 0 : nth);
                    w.io.run_for(10s);
                    struck |= !in_the_call && refuse.struck();
                }
                EXPECT_TRUE(w.io.stopped());
                EXPECT_EQ(alive.use_count(), 1);
            }
            EXPECT_EQ(calls, threw ? 0 : 1) << "the " << nth << "th";
            EXPECT_EQ(lowest_free_fd(), free);
            if (!struck) break;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Operations, WithoutMemory,
    testing::Values(
        operation_case{"post", [](world& w, note n) { post(w.io, std::move(n)); }},
        operation_case{"dispatch", [](world& w, note n) { dispatch(w.io, std::move(n)); }},
        operation_case{"defer", [](world& w, note n) { defer(w.io, std::move(n)); }},
        operation_case{"deferred", [](world& w, note n) { post(w.io, deferred)(std::move(n)); }},
        operation_case{"call_and_result",
                       [](world& w, note n) { post([] { return 1; }, w.io, std::move(n)); }},
        operation_case{"strand_post", [](world& w, note n) { post(w.one, std::move(n)); }},
        operation_case{"strand_dispatch", [](world& w, note n) { dispatch(w.one, std::move(n)); }},
        operation_case{"strand_defer", [](world& w, note n) { defer(w.one, std::move(n)); }},
        operation_case{"any_strand",
                       [](world& w, note n) {
                           post(strand<any_io_executor>(w.io.get_executor()), std::move(n));
                       }},
        operation_case{"steady_timer", [](world& w, note n) { w.timer.async_wait(std::move(n)); }},
        operation_case{"steady_timer_with_slot",
                       [](world& w, note n) {
                           w.timer.async_wait(
                               bind_cancellation_slot(w.signal.slot(), std::move(n)));
                       }},
        operation_case{
            "steady_timer_of_a_strand",
            [](world& w, note n) { w.timer.async_wait(bind_executor(w.one, std::move(n))); }},
        operation_case{"steady_timer_of_a_strand_of_any",
                       [](world& w, note n) {
                           w.timer.async_wait(bind_executor(
                               strand<any_io_executor>(w.io.get_executor()), std::move(n)));
                       }},
        operation_case{"steady_timer_of_another_executor",
                       [](world& w, note n) {
                           w.timer.async_wait(bind_executor(
                               require(w.io.get_executor(), execution::blocking.never),
                               std::move(n)));
                       }},
        operation_case{
            "system_timer_of_a_strand",
            [](world& w, note n) { w.date.async_wait(bind_executor(w.one, std::move(n))); }},
        operation_case{"post_of_a_strand",
                       [](world& w, note n) { post(w.io, bind_executor(w.one, std::move(n))); }},
        operation_case{"read_of_a_strand",
                       [](world& w, note n) {
                           w.here.async_read_some(buffer(w.data),
                                                  bind_executor(w.one, std::move(n)));
                       }},
        operation_case{
            "accept_of_a_strand",
            [](world& w, note n) { w.acceptor.async_accept(bind_executor(w.one, std::move(n))); },
            [](world& w) { w.client.connect(w.acceptor.local_endpoint()); }},
        operation_case{"accept_into_a_socket",
                       [](world& w, note n) { w.acceptor.async_accept(w.server, std::move(n)); },
                       [](world& w) { w.client.connect(w.acceptor.local_endpoint()); }},
        operation_case{"system_timer", [](world& w, note n) { w.date.async_wait(std::move(n)); }},
        operation_case{"periodic_timer",
                       [](world& w, note n) { w.period.async_wait(std::move(n)); }},
        operation_case{"cancel_after",
                       [](world& w, note n) {
                           w.timer.expires_after(1h);
                           w.timer.async_wait(cancel_after(1ms, std::move(n)));
                       },
                       nullptr, true},
        operation_case{"descriptor_wait",
                       [](world& w, note n) {
                           w.here.async_wait(posix::descriptor::wait_read, std::move(n));
                       }},
        operation_case{
            "descriptor_read",
            [](world& w, note n) { w.here.async_read_some(buffer(w.data), std::move(n)); }},
        operation_case{"descriptor_write_with_slot",
                       [](world& w, note n) {
                           w.here.async_write_some(
                               buffer(w.data),
                               bind_cancellation_slot(w.signal.slot(), std::move(n)));
                       }},
        operation_case{"async_write",
                       [](world& w, note n) { async_write(w.here, buffer(w.data), std::move(n)); }},
        operation_case{
            "connect",
            [](world& w, note n) {
                w.client.async_connect(w.acceptor.local_endpoint(), std::move(n));
            }},
        operation_case{"accept", [](world& w, note n) { w.acceptor.async_accept(std::move(n)); },
                       [](world& w) { w.client.connect(w.acceptor.local_endpoint()); }},
        operation_case{"signal_set", [](world& w, note n) { w.signals.async_wait(std::move(n)); },
                       [](world& w) {
                           w.signals.add(SIGUSR1);
                           ::raise(SIGUSR1);
                       }}),
    [](const auto& of) { return std::string(of.param.name); });

// The promise is kept or broken: nobody waits for ever.
TEST(WithoutMemoryUseFuture, ThrowsOrIsReady) {
    for (int nth = 1;; ++nth) {
        ASSERT_LT(nth, 100);
        io_context io;
        std::future<void> done;
        bool struck = false;
        {
            const no_recycled_memory none;
            const failing_new refuse(nth);
            try {
                done = post(io, use_future);
            } catch (const std::bad_alloc&) {
            }
            struck = refuse.struck();
        }
        EXPECT_EQ(io.run(), done.valid() ? 1U : 0U);
        EXPECT_TRUE(!done.valid() || done.wait_for(0s) == std::future_status::ready);
        if (!struck) break;
    }
}

}  // namespace
}  // namespace verge
#endif
