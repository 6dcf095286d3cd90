#include "unit/io/io_fixture.hpp"
#include <verge/io/as_tuple.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/default_completion_token.hpp>
#include <verge/io/deferred.hpp>
#include <verge/io/detached.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/periodic_timer.hpp>
#include <verge/io/redirect_error.hpp>
#include <verge/io/signal_set.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/system_timer.hpp>
#include <verge/io/use_future.hpp>

#include <concepts>
#include <future>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include <signal.h>
#include <sys/socket.h>

namespace verge {
namespace {

using with_future = use_future_t<>;
using fast_timer =
    basic_waitable_timer<std::chrono::steady_clock, wait_traits<std::chrono::steady_clock>,
                         io_context::executor_type>;

static_assert(std::same_as<default_completion_token_t<any_io_executor>, deferred_t>);
static_assert(std::same_as<default_completion_token_t<steady_timer>, deferred_t>);
static_assert(std::same_as<
              default_completion_token_t<with_future::as_default_on_t<steady_timer>::executor_type>,
              with_future>);
static_assert(std::same_as<detached_t::executor_with_default<any_io_executor>,
                           detached_t::as_default_on_t<steady_timer>::executor_type>);
static_assert(execution::executor<detached_t::executor_with_default<any_io_executor>>);

TEST(DefaultToken, IsThatOfTheExecutor) {
    io_context io;
    with_future::as_default_on_t<steady_timer> timer(io, 0s);
    std::future<void> waited = timer.async_wait();
    io.run();
    EXPECT_NO_THROW(waited.get());

    io.restart();
    with_future::as_default_on_t<system_timer> date(io);
    std::future<void> came = date.async_wait();
    with_future::as_default_on_t<periodic_timer> period(io, 1us);
    std::future<void> ticked = period.async_wait();
    with_future::as_default_on_t<signal_set> signals(io, SIGUSR1);
    ::raise(SIGUSR1);
    std::future<int> number = signals.async_wait();
    io.run();
    EXPECT_NO_THROW(came.get());
    EXPECT_NO_THROW(ticked.get());
    EXPECT_EQ(number.get(), SIGUSR1);

    io.restart();
    using whole = as_tuple_t<with_future>;
    whole::as_default_on_t<ip::tcp::acceptor> acceptor(io, {ip::address::loopback_v4(), 0});
    whole::as_default_on_t<ip::tcp::socket> client(io);
    std::future<std::tuple<std::error_code>> connected =
        client.async_connect(acceptor.local_endpoint());
    auto accepted = acceptor.async_accept();
    io.run();
    EXPECT_FALSE(std::get<0>(connected.get()));
    auto [error, server] = accepted.get();
    EXPECT_FALSE(error);
    char data[2] = {};
    std::future<std::tuple<std::error_code, std::size_t>> read = async_read(server, buffer(data));
    std::future<std::tuple<std::error_code, std::size_t>> written =
        async_write(client, buffer(std::string_view("ab")));
    io.restart();
    io.run();
    EXPECT_EQ(std::get<1>(read.get()), 2U);
    EXPECT_EQ(std::get<1>(written.get()), 2U);
}

TEST(DefaultToken, AFunctionMayBePostedWithout) {
    io_context io;
    int calls = 0;
    post(io)([&] { ++calls; });
    dispatch(io.get_executor())([&] { ++calls; });
    defer(io)([&] { ++calls; });
    EXPECT_EQ(io.run(), 3U);
    const with_future::executor_with_default<io_context::executor_type> ex(io.get_executor());
    std::future<void> done = post(ex);
    io.restart();
    io.run();
    EXPECT_NO_THROW(done.get());
    EXPECT_EQ(calls, 3);
}

TEST(DefaultToken, AsDefaultOnTakesWaitsAlong) {
    io_context io;
    steady_timer timer(io, 1h);
    std::error_code error;
    timer.async_wait([&](std::error_code e) { error = e; });
    auto quiet = detached.as_default_on(std::move(timer));
    static_assert(std::is_void_v<decltype(quiet.async_wait())>);
    quiet.async_wait();
    EXPECT_EQ(quiet.cancel(), 2U);
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(error, error::operation_aborted);

    io.restart();
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    posix::descriptor here(io, fds[0]);
    posix::descriptor there(io, fds[1]);
    char data[1];
    std::size_t bytes = 0;
    here.async_read_some(buffer(data), [&](std::error_code, std::size_t n) { bytes = n; });
    auto moved = use_future.as_default_on(std::move(here));
    std::future<std::size_t> written =
        use_future.as_default_on(std::move(there)).async_write_some(buffer(std::string_view("x")));
    io.run();
    EXPECT_EQ(written.get(), 1U);
    EXPECT_EQ(bytes, 1U);
    EXPECT_TRUE(moved.is_open());
}

TEST(DefaultToken, AnAdapterAloneAdaptsIt) {
    io_context io;
    with_future::as_default_on_t<steady_timer> timer(io, 1h);
    std::future<std::tuple<std::error_code>> whole = timer.async_wait(as_tuple);
    std::error_code error;
    std::future<void> redirected = timer.async_wait(redirect_error(error));
    std::future<void> limited = timer.async_wait(cancel_after(1ms));
    std::future<void> adapted = timer.async_wait(redirect_error(error)(use_future));
    while (limited.wait_for(0s) != std::future_status::ready)
        io.run_one();
    EXPECT_THROW(limited.get(), std::system_error);
    timer.cancel();
    io.run();
    EXPECT_EQ(std::get<0>(whole.get()), error::operation_aborted);
    EXPECT_NO_THROW(redirected.get());
    EXPECT_NO_THROW(adapted.get());
    EXPECT_EQ(error, error::operation_aborted);

    deferred_t::as_default_on_t<as_tuple_t<deferred_t>::as_default_on_t<steady_timer>> plain(io,
                                                                                             0s);
    int calls = 0;
    plain.async_wait()([&](std::error_code) { ++calls; });  // the last one counts
    io.restart();
    io.run();
    EXPECT_EQ(calls, 1);
}

// The loop knows its executor all the same: a wait is one block of memory, and no more.
TEST(DefaultToken, CostsNothing) {
    io_context io;
    const auto allocations = [&](auto& timer) {
        allocation_count count;
        timer.async_wait(bind_allocator(counting_allocator<int>(count), [](std::error_code) {}));
        io.run();
        io.restart();
        EXPECT_EQ(count.live, 0);
        return count.total;
    };
    detached_t::as_default_on_t<steady_timer> any(io);
    detached_t::as_default_on_t<fast_timer> own(io);
    EXPECT_EQ(allocations(any), 1);
    EXPECT_EQ(allocations(own), 1);
    static_assert(sizeof own == sizeof(fast_timer));
    const any_io_executor held = own.get_executor();
    EXPECT_NE(held.target<io_context::executor_type>(), nullptr);
    const any_io_executor same = any.get_executor();
    EXPECT_EQ(held, same);
}

TEST(DefaultToken, AStrandMayHaveOne) {
    io_context io;
    with_future::as_default_on_t<
        basic_waitable_timer<std::chrono::steady_clock, wait_traits<std::chrono::steady_clock>,
                             strand<io_context::executor_type>>>
        timer(make_strand(io), 0s);
    std::future<void> done = timer.async_wait();
    bool inside = false;
    timer.async_wait(
        [&](std::error_code) { inside = timer.get_executor().running_in_this_thread(); });
    io.run();
    EXPECT_NO_THROW(done.get());
    EXPECT_TRUE(inside);
}

TEST(UseFuture, TakesAnAllocator) {
    allocation_count count;
    io_context io;
    {
        const auto token = use_future[counting_allocator<int>(count)];
        std::future<void> posted = post(io, token);
        EXPECT_GE(count.total, 2);  // the promise and the operation
        std::future<int> called = post(io, token([] { return 7; }));
        io.run();
        EXPECT_NO_THROW(posted.get());
        EXPECT_EQ(called.get(), 7);
        EXPECT_EQ(use_future.rebind(counting_allocator<int>(count)).get_allocator(),
                  counting_allocator<char>(count));
    }
    EXPECT_EQ(count.live, 0);
}

}  // namespace
}  // namespace verge
