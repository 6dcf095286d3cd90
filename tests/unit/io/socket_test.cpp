#include "unit/io/io_fixture.hpp"
#include <verge/io/as_tuple.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/use_future.hpp>

#include <future>
#include <string_view>
#include <type_traits>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace verge {
namespace {

using ip::tcp;

class Socket : public testing::Test {
protected:
    io_context io;
    tcp::acceptor acceptor{io, {ip::address::loopback_v4(), 0}};
    tcp::endpoint at = acceptor.local_endpoint();
    std::error_code error;
};

TEST_F(Socket, OpensBindsAndListens) {
    tcp::acceptor own(io);
    EXPECT_FALSE(own.is_open());
    own.listen(1, error);
    EXPECT_EQ(error, error::bad_descriptor);
    EXPECT_THROW(own.bind(at), std::system_error);
    const tcp::endpoint any(ip::address::loopback_v4(), 0);
    own.open(any.protocol());
    own.open(tcp::v4(), error);
    EXPECT_EQ(error, error::already_open);
    own.set_option(tcp::acceptor::reuse_address(true));
    own.bind(at, error);
    EXPECT_EQ(error, error::address_in_use);
    own.bind(any);
    own.listen();

    tcp::socket client(io, tcp::v4());
    EXPECT_TRUE(client.is_open());
    client.bind(any);
    const tcp::endpoint here = client.local_endpoint();
    EXPECT_NE(here.port(), 0);
    EXPECT_EQ(client.remote_endpoint(error), tcp::endpoint());
    EXPECT_EQ(error, error::not_connected);
    client.connect(own.local_endpoint(), error);
    EXPECT_FALSE(error);
    const tcp::socket server = own.accept();
    EXPECT_EQ(server.remote_endpoint(), here);
    EXPECT_EQ(server.local_endpoint(error), own.local_endpoint());
    EXPECT_FALSE(error);
    EXPECT_EQ(tcp::v6().family(), AF_INET6);
    EXPECT_EQ(tcp::endpoint(tcp::v6(), 1).protocol(), tcp::v6());
}

TEST_F(Socket, OptionsAreSetAndAskedFor) {
    tcp::socket socket(io, tcp::v4());
    const auto in_kernel = [&](int level, int name) {
        int value = -1;
        socklen_t size = sizeof value;
        EXPECT_EQ(::getsockopt(socket.native_handle(), level, name, &value, &size), 0);
        return value;
    };
    const auto switches = [&]<class Option>(Option option, int level, int name) {
        EXPECT_FALSE(option.value());
        for (const bool on : {true, false}) {
            socket.set_option(Option(on));
            socket.get_option(option);
            EXPECT_EQ(option.value(), on);
            EXPECT_EQ(in_kernel(level, name) != 0, on);
            EXPECT_EQ(!option, !on);
        }
        option = true;
        EXPECT_TRUE(option);
    };
    switches(tcp::no_delay(), IPPROTO_TCP, TCP_NODELAY);
    switches(socket_base::keep_alive(), SOL_SOCKET, SO_KEEPALIVE);
    switches(socket_base::reuse_address(), SOL_SOCKET, SO_REUSEADDR);
    switches(socket_base::broadcast(), SOL_SOCKET, SO_BROADCAST);
    switches(tcp::socket::do_not_route(), SOL_SOCKET, SO_DONTROUTE);
    switches(tcp::socket::out_of_band_inline(), SOL_SOCKET, SO_OOBINLINE);

    for (const int size : {20'000, 40'000}) {
        socket.set_option(socket_base::send_buffer_size(size));
        socket.set_option(socket_base::receive_buffer_size(size));
        EXPECT_EQ(in_kernel(SOL_SOCKET, SO_SNDBUF), 2 * size);  // the kernel's own use of it
        EXPECT_EQ(in_kernel(SOL_SOCKET, SO_RCVBUF), 2 * size);
        socket_base::send_buffer_size out;
        socket_base::receive_buffer_size in;
        socket.get_option(out);
        socket.get_option(in);
        EXPECT_EQ(out.value(), 2 * size);
        EXPECT_EQ(in.value(), 2 * size);
    }
    socket_base::linger linger(true, 7);
    socket.set_option(linger);
    linger = {};
    EXPECT_FALSE(linger.enabled());
    socket.get_option(linger);
    EXPECT_TRUE(linger.enabled());
    EXPECT_EQ(linger.timeout(), 7);

    socket_base::reuse_address reuse;
    acceptor.get_option(reuse);
    EXPECT_TRUE(reuse.value());  // as its constructor says
    socket.close();
    socket.set_option(reuse, error);
    EXPECT_EQ(error, error::bad_descriptor);
    EXPECT_THROW(socket.get_option(reuse), std::system_error);
}

// A time limit of the kernel's, as people write it for Asio.
struct receive_timeout {
    int level(const tcp&) const { return SOL_SOCKET; }
    int name(const tcp&) const { return SO_RCVTIMEO; }
    const timeval* data(const tcp&) const { return &value; }
    timeval* data(const tcp&) { return &value; }
    std::size_t size(const tcp&) const { return sizeof value; }
    void resize(const tcp&, std::size_t size) { got = size; }
    timeval value{};
    std::size_t got = 0;
};

TEST_F(Socket, AUsersOptionWorks) {
    tcp::socket socket(io, tcp::v4());
    receive_timeout limit;
    limit.value.tv_sec = 3;
    socket.set_option(limit);
    receive_timeout asked;
    socket.get_option(asked);
    EXPECT_EQ(asked.value.tv_sec, 3);
    EXPECT_EQ(asked.got, sizeof(timeval));
    socket_base::keep_alive whole;
    EXPECT_THROW(whole.resize(tcp::v4(), 1), std::length_error);
}

TEST_F(Socket, AcceptsIntoAGivenSocket) {
    tcp::socket client(io);
    tcp::socket server(io);
    bool done = false;
    acceptor.async_accept(server, [&](std::error_code e) {
        EXPECT_FALSE(e);
        done = true;
    });
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(server.is_open());
    client.connect(at);
    EXPECT_EQ(io.run(), 1U);
    EXPECT_TRUE(done);
    EXPECT_EQ(server.remote_endpoint(), client.local_endpoint());

    io.restart();
    tcp::socket second(io);
    second.connect(at);
    std::future<void> again = acceptor.async_accept(server, use_future);  // it is open
    io.run();
    EXPECT_THROW(
        {
            try {
                again.get();
            } catch (const std::system_error& e) {
                EXPECT_EQ(e.code(), error::already_open);
                throw;
            }
        },
        std::system_error);
    server.close();
    auto deferred_one = acceptor.async_accept(server);
    std::future<void> kept = std::move(deferred_one)(use_future);  // the connection still waits
    io.restart();
    EXPECT_EQ(io.run_for(5s), 1U);
    ASSERT_EQ(kept.wait_for(0s), std::future_status::ready);
    EXPECT_NO_THROW(kept.get());
    EXPECT_EQ(server.remote_endpoint(), second.local_endpoint());
}

TEST_F(Socket, AcceptsForAGivenExecutor) {
    io_context other;
    const auto one = make_strand(other);
    tcp::socket clients[3] = {tcp::socket(io), tcp::socket(io), tcp::socket(io)};
    for (tcp::socket& client : clients)
        client.connect(at);
    int calls = 0;
    acceptor.async_accept(one, [&](std::error_code e, auto peer) {
        static_assert(
            std::is_same_v<typename decltype(peer)::executor_type, std::decay_t<decltype(one)>>);
        EXPECT_FALSE(e);
        EXPECT_EQ(peer.get_executor(), one);
        EXPECT_EQ(peer.write_some(buffer(std::string_view("x"))), 1U);
        ++calls;
    });
    acceptor.async_accept(other, [&](std::error_code e, tcp::socket peer) {  // which converts
        EXPECT_FALSE(e);
        EXPECT_EQ(peer.get_executor(), any_io_executor(other.get_executor()));
        ++calls;
    });
    tcp::socket third(other);
    acceptor.async_accept(third, [&](std::error_code e) {
        EXPECT_FALSE(e);
        ++calls;
    });
    EXPECT_EQ(io.run(), 3U);
    EXPECT_EQ(calls, 3);
    char data[1];
    EXPECT_EQ(clients[0].read_some(buffer(data)), 1U);
    third.async_read_some(buffer(data), [&](std::error_code e, std::size_t) {
        EXPECT_EQ(e, error::eof);
        ++calls;
    });
    for (tcp::socket& client : clients)
        client.close();
    EXPECT_EQ(other.run(), 1U);
    EXPECT_EQ(calls, 4);
}

TEST_F(Socket, AcceptsAndBlocks) {
    tcp::socket client(io);
    std::thread later([&, waiting = ::gettid()] {
        EXPECT_TRUE(falls_asleep(waiting));
        client.connect(at);
    });
    tcp::socket server = acceptor.accept();
    later.join();
    EXPECT_EQ(server.remote_endpoint(), client.local_endpoint());
    acceptor.accept(server, error);
    EXPECT_EQ(error, error::already_open);
    tcp::socket second(io);
    second.connect(at);
    server.close();
    acceptor.accept(server);
    EXPECT_EQ(server.remote_endpoint(), second.local_endpoint());
    acceptor.close();
    EXPECT_FALSE(acceptor.accept(error).is_open());
    EXPECT_EQ(error, error::bad_descriptor);
    EXPECT_THROW(acceptor.accept(second), std::system_error);
}

}  // namespace
}  // namespace verge
