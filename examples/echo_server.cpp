// An echo server that closes connections which are idle for too long, and two clients.

#include <verge/io/buffer.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/ip/tcp.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;
using verge::ip::tcp;

namespace {

constexpr auto idle_limit = 50ms;

// One connection.  Each operation holds it, so it lives as long as one is pending.
class session : public std::enable_shared_from_this<session> {
public:
    session(tcp::socket socket, std::function<void(std::error_code)> at_end)
        : socket_(std::move(socket)), at_end_(std::move(at_end)) {}

    void read() {
        verge::with_timeout(socket_.async_read_some(verge::buffer(data_)), idle_limit)(
            [self = shared_from_this()](std::error_code error, std::size_t size) {
                if (error) return self->at_end_(error);
                self->write(size);
            });
    }

private:
    void write(std::size_t size) {
        verge::async_write(socket_, verge::buffer(data_, size),
                           [self = shared_from_this()](std::error_code error, std::size_t) {
                               if (error) return self->at_end_(error);
                               self->read();
                           });
    }

    tcp::socket socket_;
    std::function<void(std::error_code)> at_end_;
    std::array<char, 1024> data_{};
};

}  // namespace

int main() {
    verge::io_context io(1);
    tcp::acceptor acceptor(io, {verge::ip::address::loopback_v4(), 0});
    int ended = 0;
    int timed_out = 0;
    std::function<void(std::error_code, tcp::socket)> accepted = [&](std::error_code error,
                                                                     tcp::socket socket) {
        if (error) return;
        std::make_shared<session>(std::move(socket), [&](std::error_code why) {
            std::printf("a connection has ended: %s\n", why.message().c_str());
            if (why == verge::error::timed_out) ++timed_out;
            if (++ended == 2) acceptor.close();
        })->read();
        acceptor.async_accept(accepted);
    };
    acceptor.async_accept(accepted);

    tcp::socket busy(io);
    tcp::socket idle(io);
    std::array<char, 5> answer{};
    busy.async_connect(acceptor.local_endpoint(), [&](std::error_code) {
        verge::async_write(
            busy, verge::buffer(std::string_view("hello")), [&](std::error_code, std::size_t) {
                verge::async_read(busy, verge::buffer(answer), [&](std::error_code, std::size_t) {
                    std::printf("echo: %.5s\n", answer.data());
                    busy.close();
                });
            });
    });
    idle.async_connect(acceptor.local_endpoint(), [](std::error_code) {});

    io.run();
    return ended == 2 && timed_out == 1 ? 0 : 1;
}
