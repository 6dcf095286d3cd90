// Every operation with every kind of token: it compiles, and completes once.

#include "unit/io/io_fixture.hpp"
#include <verge/io/append.hpp>
#include <verge/io/as_tuple.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/compose.hpp>
#include <verge/io/consign.hpp>
#include <verge/io/detached.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/prepend.hpp>
#include <verge/io/redirect_error.hpp>
#include <verge/io/signal_set.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/system_timer.hpp>
#include <verge/io/use_future.hpp>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include <signal.h>
#include <sys/socket.h>

namespace verge {
namespace {

// What the operations need: each can complete soon.
struct world {
    world() {
        int fds[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        here.assign(fds[0]);
        there.assign(fds[1]);
        EXPECT_EQ(there.write_some(buffer(std::string_view("12345678"))), 8U);
    }
    using one_strand = strand<io_context::executor_type>;
    template <class Executor>
    using timer_of = basic_waitable_timer<std::chrono::steady_clock,
                                          wait_traits<std::chrono::steady_clock>, Executor>;
    io_context io;
    one_strand one{make_strand(io)};
    steady_timer timer{io, 0s};
    timer_of<io_context::executor_type> own_timer{io, 0s};
    timer_of<one_strand> strand_timer{one, 0s};
    steady_timer any_strand_timer{one, 0s};
    system_timer date{io};
    periodic_timer period{io, 1us};
    posix::descriptor here{io};
    posix::descriptor there{io};
    signal_set signals{io};
    ip::tcp::acceptor acceptor{io, {ip::address::loopback_v4(), 0}};
    ip::tcp::socket client{io};
    ip::tcp::socket server{io};
    char data[8] = {};
    std::array<mutable_buffer, 2> parts() { return {buffer(data, 4), buffer(data + 4, 4)}; }
    void connect() { client.connect(acceptor.local_endpoint()); }
};

// Counts its calls, whatever the results; not to be copied.
auto move_only(int& calls) {
    return [own = std::make_unique<int*>(&calls)](auto&&...) { ++**own; };
}

enum class results { with_error, without };

template <results What, class Begin>
void with_every_token(Begin begin) {
    int calls = 0;
    const auto completes = [&](const char* token, auto&& how) {
        SCOPED_TRACE(token);
        calls = 0;
        world w;
        how(w);
        w.io.run_for(10s);
        EXPECT_TRUE(w.io.stopped());
        EXPECT_EQ(calls, 1);
    };
    completes("plain", [&](world& w) { begin(w, [&](auto&&...) { ++calls; }); });
    completes("an lvalue", [&](world& w) {
        const auto token = [&calls](auto&&...) { ++calls; };
        begin(w, token);
    });
    completes("move-only", [&](world& w) { begin(w, move_only(calls)); });
    completes("deferred", [&](world& w) { begin(w, deferred)(move_only(calls)); });
    completes("use_future", [&](world& w) {
        auto future = begin(w, use_future);
        w.io.run_for(10s);
        EXPECT_NO_THROW(future.get());
        ++calls;
    });
    completes("use_future of a function", [&](world& w) {
        auto future = begin(w, use_future(move_only(calls)));
        w.io.run_for(10s);
        EXPECT_NO_THROW(future.get());
    });
    completes("detached", [&](world& w) {
        begin(w, detached);
        ++calls;
    });
    completes("as_tuple", [&](world& w) { begin(w, as_tuple(move_only(calls))); });
    completes("as_tuple alone", [&](world& w) { begin(w, as_tuple)(move_only(calls)); });
    completes("bind_executor", [&](world& w) { begin(w, bind_executor(w.one, move_only(calls))); });
    completes("bind_executor of any",
              [&](world& w) { begin(w, bind_executor(any_io_executor(w.one), move_only(calls))); });
    completes("bind_executor of a token",
              [&](world& w) { begin(w, bind_executor(w.one, deferred))(move_only(calls)); });
    completes("bind_allocator", [&](world& w) {
        allocation_count count;
        begin(w, bind_allocator(counting_allocator<int>(count), move_only(calls)));
        w.io.run_for(10s);
        EXPECT_EQ(count.live, 0);
    });
    completes("bind_cancellation_slot", [&](world& w) {
        cancellation_signal signal;
        begin(w, bind_cancellation_slot(signal.slot(), move_only(calls)));
        w.io.run_for(10s);
    });
    completes("cancel_after", [&](world& w) { begin(w, cancel_after(1h, move_only(calls))); });
    completes("append", [&](world& w) { begin(w, append(move_only(calls), 1)); });
    completes("prepend", [&](world& w) { begin(w, prepend(move_only(calls), 1)); });
    completes("consign",
              [&](world& w) { begin(w, consign(move_only(calls), std::make_unique<int>())); });
    if constexpr (What == results::with_error) {
        std::error_code error = error::eof;
        completes("redirect_error", [&](world& w) {
            error = error::eof;
            begin(w, redirect_error(move_only(calls), error));
        });
        EXPECT_FALSE(error);
        completes("redirect_error alone", [&](world& w) {
            error = error::eof;
            begin(w, redirect_error(error))(move_only(calls));
        });
        EXPECT_FALSE(error);
    }
}

TEST(EveryToken, Post) {
    with_every_token<results::without>(
        []<class T>(world& w, T&& token) { return post(w.io, std::forward<T>(token)); });
    with_every_token<results::without>([]<class T>(world& w, T&& token) {
        return post(any_io_executor(w.one), std::forward<T>(token));
    });
}
TEST(EveryToken, DispatchAndDefer) {
    with_every_token<results::without>(
        []<class T>(world& w, T&& token) { return dispatch(w.one, std::forward<T>(token)); });
    with_every_token<results::without>(
        []<class T>(world& w, T&& token) { return defer(w.io, std::forward<T>(token)); });
}
TEST(EveryToken, PostWithAResult) {
    with_every_token<results::without>([]<class T>(world& w, T&& token) {
        return post([] { return 7; }, w.io, std::forward<T>(token));
    });
    with_every_token<results::without>([]<class T>(world& w, T&& token) {
        return post([own = std::make_unique<int>()] {}, w.one, std::forward<T>(token));
    });
}
TEST(EveryToken, Timers) {
    with_every_token<results::with_error>(
        []<class T>(world& w, T&& token) { return w.timer.async_wait(std::forward<T>(token)); });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.own_timer.async_wait(std::forward<T>(token));
    });
    with_every_token<results::with_error>(
        []<class T>(world& w, T&& token) { return w.date.async_wait(std::forward<T>(token)); });
}
TEST(EveryToken, TimersOfAStrand) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.strand_timer.async_wait(std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.any_strand_timer.async_wait(std::forward<T>(token));
    });
}
TEST(EveryToken, APeriodicTimer) {
    with_every_token<results::with_error>(
        []<class T>(world& w, T&& token) { return w.period.async_wait(std::forward<T>(token)); });
}
TEST(EveryToken, Descriptors) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.here.async_wait(posix::descriptor::wait_read, std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.here.async_read_some(buffer(w.data), std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.here.async_write_some(w.parts(), std::forward<T>(token));
    });
}
TEST(EveryToken, WholeTransfers) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return async_read(w.here, w.parts(), std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return async_write(w.here, buffer(w.data), std::forward<T>(token));
    });
}
TEST(EveryToken, Connect) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return w.client.async_connect(w.acceptor.local_endpoint(), std::forward<T>(token));
    });
}
TEST(EveryToken, Accept) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        w.connect();
        return w.acceptor.async_accept(std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        w.connect();
        return w.acceptor.async_accept(w.server, std::forward<T>(token));
    });
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        w.connect();
        return w.acceptor.async_accept(w.one, std::forward<T>(token));
    });
}
TEST(EveryToken, Signals) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        w.signals.add(SIGUSR1);
        ::raise(SIGUSR1);
        return w.signals.async_wait(std::forward<T>(token));
    });
}
TEST(EveryToken, ComposedOperations) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return async_compose<T, void(std::error_code)>(
            [&w, turn = 0](auto& self, std::error_code error = {}) mutable {
                if (turn++ == 2) return self.complete(error);
                w.timer.async_wait(std::move(self));
            },
            token, w.timer);
    });
}
TEST(EveryToken, OperationsWithATimeout) {
    with_every_token<results::with_error>([]<class T>(world& w, T&& token) {
        return with_timeout(w.here.async_read_some(buffer(w.data)), 1h)(std::forward<T>(token));
    });
}

}  // namespace
}  // namespace verge
