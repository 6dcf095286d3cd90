#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/io/io_fixture.hpp"
#include <verge/io/as_tuple.hpp>
#include <verge/io/buffer.hpp>
#include <verge/io/cancel_after.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/ip/tcp.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/use_future.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verge {
namespace {

class Descriptor : public testing::Test {
protected:
    Descriptor() {
        int fds[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        here.assign(fds[0]);
        there.assign(fds[1]);
    }
    auto note() {
        return [this](std::error_code e, std::size_t n) {
            error = e;
            bytes = n;
            ++calls;
        };
    }
    io_context io;
    posix::descriptor here{io};
    posix::descriptor there{io};
    char data[64] = {};
    std::error_code error;
    std::size_t bytes = 0;
    int calls = 0;
};

#if VERGE_CAN_REFUSE_MEMORY
TEST_F(Descriptor, MemoryRefusedBeginsNothing) {
    const auto alive = std::make_shared<int>();
    int refused = 0;
    for (bool begun = false; !begun;) {
        cancellation_signal signal;
        {
            auto handler = bind_cancellation_slot(
                signal.slot(), [keep = std::shared_ptr<int>(alive)](std::error_code, std::size_t) {
                    FAIL() << "nothing is read";
                });
            const failing_new nth(refused + 1);
            try {
                here.async_read_some(buffer(data), std::move(handler));
                begun = true;
            } catch (const std::bad_alloc&) {
                ++refused;
            }
        }
        EXPECT_EQ(alive.use_count(), begun ? 2 : 1);
        EXPECT_EQ(io.poll(), 0U);
        EXPECT_EQ(io.stopped(), !begun);
        io.restart();
    }
    EXPECT_GE(refused, 2);
}
#endif

TEST_F(Descriptor, ReadsAndWrites) {
    here.async_read_some(buffer(data), note());
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(io.stopped());  // a pending read is work
    EXPECT_EQ(there.write_some(buffer(std::string_view("hello"))), 5U);
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
    EXPECT_EQ(std::string_view(data, bytes), "hello");
    EXPECT_EQ(calls, 1);
}

TEST_F(Descriptor, ACompletionIsNeverInTheCallThatBegins) {
    there.write_some(buffer(std::string_view("x")));
    here.async_read_some(buffer(data), note());
    here.async_write_some(buffer(std::string_view("y")), note());
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(calls, 2);
}

TEST_F(Descriptor, PartialWritesSayHowMuch) {
    const std::string large(4'000'000, 'x');
    here.async_write_some(buffer(large), note());
    io.run();
    EXPECT_FALSE(error);
    EXPECT_GT(bytes, 0U);
    EXPECT_LT(bytes, large.size());
    // And all of it, while the other side reads.
    io.restart();
    std::size_t read = 0;
    const std::size_t first = bytes;
    std::vector<char> into(100'000);
    std::function<void(std::error_code, std::size_t)> more = [&](std::error_code e, std::size_t n) {
        ASSERT_FALSE(e);
        read += n;
        if (read < first + large.size()) there.async_read_some(buffer(into), more);
    };
    there.async_read_some(buffer(into), more);
    async_write(here, buffer(large), note());
    io.run();
    EXPECT_EQ(bytes, large.size());
    EXPECT_EQ(read, first + large.size());
}

TEST_F(Descriptor, TheEndOfAStreamIsEof) {
    here.async_read_some(buffer(data), note());
    there.close();
    io.run();
    EXPECT_EQ(error, error::eof);
    EXPECT_EQ(bytes, 0U);
}

TEST_F(Descriptor, WaitsForReadiness) {
    int ready = 0;
    here.async_wait(posix::descriptor::wait_write, [&](std::error_code e) { ready += e ? 0 : 1; });
    EXPECT_EQ(io.poll(), 1U);
    here.async_wait(posix::descriptor::wait_read, [&](std::error_code e) { ready += e ? 0 : 10; });
    io.restart();
    EXPECT_EQ(io.poll(), 0U);
    there.write_some(buffer(std::string_view("x")));
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(ready, 11);
}

TEST_F(Descriptor, WaitsForErrors) {
    const auto count = [this](std::error_code e) {
        EXPECT_FALSE(e);
        ++calls;
    };
    here.async_wait(posix::descriptor::wait_error, count);
    there.write_some(buffer(std::string_view("no error")));
    here.async_wait(posix::descriptor::wait_error, count);  // nor does it when it begins
    EXPECT_EQ(io.poll(), 0U);
    there.close();  // both directions hang up
    EXPECT_EQ(io.run_for(5s), 2U);

    io.restart();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix::descriptor in(io, ends[0]);
    posix::descriptor out(io, ends[1]);
    out.async_wait(posix::descriptor::wait_error, count);
    out.async_wait(posix::descriptor::wait_write, count);  // it is not about writing
    EXPECT_EQ(io.poll(), 1U);
    in.close();  // nobody reads any more: an error
    EXPECT_EQ(io.run_for(5s), 1U);
    EXPECT_EQ(calls, 4);
    io.restart();
    out.async_wait(posix::descriptor::wait_error, count);  // it is there already
    EXPECT_EQ(io.run_for(5s), 1U);
}

TEST_F(Descriptor, CancelEndsWhatIsPending) {
    here.async_read_some(buffer(data), note());
    here.cancel();
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(error, error::operation_aborted);
}

TEST_F(Descriptor, CloseEndsWhatIsPending) {
    here.async_read_some(buffer(data), note());
    here.close();
    EXPECT_FALSE(here.is_open());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(error, error::operation_aborted);
    io.restart();
    here.async_read_some(buffer(data), note());
    io.run();
    EXPECT_EQ(error, error::bad_descriptor);
}

TEST_F(Descriptor, AReleasedDescriptorStaysOpen) {
    const int fd = here.release();
    EXPECT_FALSE(here.is_open());
    EXPECT_GE(::fcntl(fd, F_GETFD), 0);
    posix::descriptor again(io, fd);
    there.write_some(buffer(std::string_view("x")));
    again.async_read_some(buffer(data), note());
    io.run();
    EXPECT_EQ(bytes, 1U);
}

TEST_F(Descriptor, ASlotEndsOneRead) {
    cancellation_signal signal;
    here.async_read_some(buffer(data, 1), bind_cancellation_slot(signal.slot(), note()));
    char other[8] = {};
    std::size_t got = 0;
    here.async_read_some(buffer(other), [&](std::error_code, std::size_t n) { got = n; });
    EXPECT_EQ(io.poll(), 0U);
    signal.emit(cancellation_type::terminal);
    EXPECT_EQ(io.poll(), 1U);
    EXPECT_EQ(error, error::operation_aborted);
    there.write_some(buffer(std::string_view("abc")));
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(got, 3U);
}

TEST_F(Descriptor, TokensWork) {
    std::future<std::size_t> read = here.async_read_some(buffer(data), use_future);
    there.write_some(buffer(std::string_view("abc")));
    io.run();
    EXPECT_EQ(read.get(), 3U);
}

TEST_F(Descriptor, ADestroyedContextDestroysHandlers) {
    std::atomic<int> alive = 0;
    {
        io_context own;
        int fds[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        // A descriptor that only its own handler keeps alive.
        auto d = std::make_shared<posix::descriptor>(own, fds[0]);
        d->async_read_some(buffer(data),
                           [d, c = counted(alive)](std::error_code, std::size_t) { FAIL(); });
        ::close(fds[1]);
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

// ---- sequences of buffers -----------------------------------------------------------------------

TEST_F(Descriptor, ADeferredOperationTakesTheDescriptorWhenItIsLaunched) {
    posix::descriptor later(io);
    auto read = later.async_read_some(buffer(data));
    auto write = later.async_write_some(buffer(std::string_view("out")));
    auto wait = later.async_wait(posix::descriptor::wait_read);
    const std::array<mutable_buffer, 2> parts{buffer(data, 1), buffer(data + 1, 63)};
    auto read_parts = later.async_read_some(parts);
    later.assign(here.release());
    std::move(write)(note());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
    EXPECT_EQ(there.read_some(buffer(data)), 3U);
    for (auto* op : {&read, static_cast<decltype(&read)>(nullptr)}) {
        io.restart();
        there.write_some(buffer(std::string_view("in")));
        if (op != nullptr) {
            std::move (*op)(note());
        } else {
            std::move(read_parts)(note());
        }
        EXPECT_EQ(io.run(), 1U);
        EXPECT_FALSE(error);
        EXPECT_EQ(std::string_view(data, bytes), "in");
    }
    io.restart();
    there.write_some(buffer(std::string_view("in")));
    std::move(wait)([this](std::error_code e) { error = e; });
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
}

TEST(Buffer, SizeAndCopyTakeSequences) {
    char a[3] = {};
    char b[4] = {};
    const std::array<mutable_buffer, 2> to{buffer(a), buffer(b)};
    EXPECT_EQ(buffer_size(to), 7U);
    EXPECT_EQ(buffer_size(buffer(a)), 3U);
    const std::vector<const_buffer> from{buffer(std::string_view("hel")), const_buffer(),
                                         buffer(std::string_view("lo"))};
    EXPECT_EQ(buffer_size(from), 5U);
    EXPECT_EQ(buffer_copy(to, from), 5U);
    EXPECT_EQ(std::string_view(a, 3), "hel");
    EXPECT_EQ(std::string_view(b, 2), "lo");
    EXPECT_EQ(buffer_copy(to, buffer(std::string_view("123456789"))), 7U);
    EXPECT_EQ(std::string_view(b, 4), "4567");
    EXPECT_EQ(buffer_copy(buffer(a), buffer(std::string_view("xyz")), 1), 1U);
    EXPECT_EQ(std::string_view(a, 3), "x23");
    EXPECT_EQ(buffer_copy(buffer(a), std::vector<const_buffer>()), 0U);
}

TEST_F(Descriptor, ReadsAndWritesSequences) {
    char first[2] = {};
    char second[8] = {};
    const std::array<mutable_buffer, 3> to{buffer(first), mutable_buffer(), buffer(second)};
    here.async_read_some(to, note());
    const std::vector<const_buffer> from{buffer(std::string_view("ab")),
                                         buffer(std::string_view("cde"))};
    std::future<std::size_t> written = there.async_write_some(from, use_future);
    EXPECT_EQ(io.run(), 2U);
    EXPECT_EQ(written.get(), 5U);
    EXPECT_EQ(bytes, 5U);
    EXPECT_EQ(std::string_view(first, 2), "ab");
    EXPECT_EQ(std::string_view(second, 3), "cde");
    there.close();
    io.restart();
    here.async_read_some(to, note());
    io.run();
    EXPECT_EQ(error, error::eof);
}

TEST_F(Descriptor, AnEmptySequenceCompletesAtOnce) {
    here.async_read_some(std::vector<mutable_buffer>(), note());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
    EXPECT_EQ(bytes, 0U);
    io.restart();
    async_write(here, std::array<const_buffer, 2>{}, note());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
}

// More buffers than one system call takes, and more bytes than a socket: it goes on where it was.
TEST_F(Descriptor, AsyncReadAndWriteTakeAllOfASequence) {
    std::vector<std::string> texts;
    std::vector<const_buffer> from;
    for (int i = 0; i < 50; ++i)
        texts.push_back(
            std::string(20'000U + static_cast<unsigned>(i), static_cast<char>('0' + i)));
    std::string all;
    for (const std::string& text : texts) {
        from.emplace_back(buffer(text));
        all += text;
    }
    std::string left(all.size() / 3, ' ');
    std::string right(all.size() - left.size(), ' ');
    std::size_t written = 0;
    async_write(there, from, [&](std::error_code e, std::size_t n) { written = e ? 0 : n; });
    async_read(here, std::array<mutable_buffer, 2>{buffer(left), buffer(right)}, note());
    from.clear();  // the operation has its own
    io.run();
    EXPECT_EQ(written, all.size());
    EXPECT_FALSE(error);
    EXPECT_EQ(bytes, all.size());
    EXPECT_EQ(left + right, all);
}

// ---- TCP ----------------------------------------------------------------------------------------

using ip::tcp;

class Tcp : public testing::Test {
protected:
    io_context io{1};
    tcp::acceptor acceptor{io, {ip::address::loopback_v4(), 0}};
    tcp::endpoint at = acceptor.local_endpoint();
    char data[64] = {};
};

TEST_F(Tcp, ObjectsOfAnotherExecutorAreNamedByRebinding) {
    using executor = io_context::executor_type;
    posix::descriptor::rebind_executor<executor>::other pipe(io);
    tcp::socket::rebind_executor<executor>::other client(io);
    tcp::acceptor::rebind_executor<executor>::other own(io, {ip::address::loopback_v4(), 0});
    int done = 0;
    own.async_accept([&](std::error_code error, decltype(client) server) {
        EXPECT_FALSE(error);
        EXPECT_TRUE(server.is_open());
        ++done;
    });
    client.async_connect(own.local_endpoint(), [&](std::error_code error) { done += !error; });
    io.run();
    EXPECT_EQ(done, 2);
}

TEST_F(Tcp, ConnectsAndAccepts) {
    tcp::socket client(io);
    tcp::socket server(io);
    int done = 0;
    acceptor.async_accept([&](std::error_code error, tcp::socket s) {
        EXPECT_FALSE(error);
        server = std::move(s);
        ++done;
    });
    client.async_connect(at, [&](std::error_code error) {
        EXPECT_FALSE(error);
        ++done;
    });
    io.run();
    ASSERT_EQ(done, 2);
    EXPECT_EQ(server.remote_endpoint(), client.local_endpoint());
    EXPECT_EQ(client.remote_endpoint().address().to_string(), "127.0.0.1");
    client.no_delay(true);
    EXPECT_NE(::fcntl(server.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Tcp, ADeferredConnectBeginsWhenItIsLaunched) {
    tcp::socket client(io);
    auto connect = client.async_connect(at);
    EXPECT_FALSE(client.is_open());
    bool connected = false;
    std::move(connect)([&](std::error_code error) { connected = !error; });
    EXPECT_TRUE(client.is_open());
    io.run();
    EXPECT_TRUE(connected);
    EXPECT_EQ(client.remote_endpoint(), at);
}

TEST_F(Tcp, ADeferredAcceptTakesTheDescriptorWhenItIsLaunched) {
    auto accept = acceptor.async_accept();
    const int moved = ::fcntl(acceptor.native_handle(), F_DUPFD_CLOEXEC, 500);
    acceptor.close();
    acceptor.assign(moved);
    tcp::socket client(io);
    client.connect(at);
    bool accepted = false;
    std::move(accept)([&](std::error_code error, tcp::socket) { accepted = !error; });
    io.run();
    EXPECT_TRUE(accepted);
}

TEST_F(Tcp, ARefusedConnectionSaysSo) {
    acceptor.close();
    tcp::socket client(io);
    std::error_code error;
    client.async_connect(at, [&](std::error_code e) { error = e; });
    io.run();
    EXPECT_EQ(error, error::connection_refused);
    tcp::socket blocking(io);
    EXPECT_THROW(blocking.connect(at), std::system_error);
    EXPECT_THROW(static_cast<void>(ip::make_address("nowhere")), std::system_error);
}

TEST_F(Tcp, UrgentDataEndsAWaitForErrors) {
    tcp::socket client(io);
    client.connect(at);
    tcp::socket server(io);
    acceptor.async_accept([&](std::error_code, tcp::socket s) { server = std::move(s); });
    io.run();
    io.restart();
    bool done = false;
    server.async_wait(tcp::socket::wait_error, [&](std::error_code error) { done = !error; });
    EXPECT_EQ(io.poll(), 0U);
    ASSERT_EQ(::send(client.native_handle(), "!", 1, MSG_OOB), 1);
    EXPECT_EQ(io.run_for(5s), 1U);
    EXPECT_TRUE(done);
}

TEST_F(Tcp, AHalfClosedPeerIsEof) {
    tcp::socket client(io);
    client.connect(at);
    std::error_code seen;
    std::shared_ptr<tcp::socket> server;
    acceptor.async_accept([&](std::error_code, tcp::socket s) {
        server = std::make_shared<tcp::socket>(std::move(s));
        server->async_read_some(buffer(data), [&](std::error_code error, std::size_t) {
            seen = error;
            server->write_some(buffer(std::string_view("still open")));
        });
    });
    client.shutdown(tcp::socket::shutdown_send);
    io.run();
    EXPECT_EQ(seen, error::eof);
    EXPECT_EQ(client.read_some(buffer(data)), 10U);
}

TEST_F(Tcp, AResetIsAnError) {
    tcp::socket client(io);
    client.connect(at);
    std::error_code seen;
    std::shared_ptr<tcp::socket> server;
    acceptor.async_accept([&](std::error_code, tcp::socket s) {
        server = std::make_shared<tcp::socket>(std::move(s));
        server->async_read_some(buffer(data),
                                [&](std::error_code error, std::size_t) { seen = error; });
        const linger reset{1, 0};
        ::setsockopt(client.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        client.close();
    });
    io.run();
    EXPECT_EQ(seen, error::connection_reset);
}

TEST_F(Tcp, WithTimeoutEndsAnIdleRead) {
    tcp::socket client(io);
    client.connect(at);
    std::error_code seen;
    with_timeout(client.async_read_some(buffer(data)),
                 1ms)([&](std::error_code error, std::size_t) { seen = error; });
    io.run();
    EXPECT_EQ(seen, error::timed_out);
}

TEST_F(Tcp, ConnectSaysThatDescriptorsRanOut) {
    tcp::socket client(io);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);  // the next number there is
    ::close(lowest);
    const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    std::error_code seen;
    client.async_connect(at, [&](std::error_code error) { seen = error; });
    io.run();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(seen, error::no_descriptors);
}

#if VERGE_CAN_REFUSE_MEMORY
TEST_F(Tcp, MemoryRefusedLeavesNoDescriptorBehind) {
    const auto lowest = [] {
        const int fd = ::dup(0);
        ::close(fd);
        return fd;
    };
    const int free = lowest();
    int calls = 0;
    std::error_code seen;
    for (int nth = 1; calls == 0 || seen; ++nth) {
        tcp::socket client(io);
        std::function<void(std::error_code)> handler = [&](std::error_code error) {
            ++calls;
            seen = error;
        };
        try {
            const failing_new refuse(nth);
            client.async_connect(at, std::move(handler));
        } catch (const std::bad_alloc&) {
            EXPECT_EQ(lowest(), free);
            continue;
        }
        io.run();
        io.restart();
        if (!seen) break;
        EXPECT_EQ(seen, std::errc::not_enough_memory);
        EXPECT_EQ(lowest(), free);
    }
    EXPECT_GE(calls, 2);
}
#endif

TEST_F(Tcp, AcceptSaysThatDescriptorsRanOut) {
    tcp::socket client(io);
    client.connect(at);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = ::dup(0);  // the next number there is
    ::close(lowest);
    const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    std::error_code seen;
    acceptor.async_accept([&](std::error_code error, tcp::socket) { seen = error; });
    io.run();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(seen, error::no_descriptors);
    io.restart();
    bool accepted = false;  // it still waits
    acceptor.async_accept([&](std::error_code error, tcp::socket) { accepted = !error; });
    io.run();
    EXPECT_TRUE(accepted);
}

// A connection that sends back what it gets.
struct echo_session : std::enable_shared_from_this<echo_session> {
    explicit echo_session(tcp::socket s) : socket(std::move(s)) {}
    void read() {
        socket.async_read_some(buffer(data),
                               [self = shared_from_this()](std::error_code e, std::size_t n) {
                                   if (e) return;
                                   async_write(self->socket, buffer(self->data, n),
                                               [self](std::error_code error, std::size_t) {
                                                   if (!error) self->read();
                                               });
                               });
    }
    tcp::socket socket;
    std::array<char, 32> data{};
};

// Sends back what each connection sends, until `clients` of them have come and gone.
struct echo_server {
    echo_server(tcp::acceptor& at, int count) : acceptor(at), clients(count) { accept(); }
    void accept() {
        acceptor.async_accept([this](std::error_code error, tcp::socket s) {
            ASSERT_FALSE(error);
            std::make_shared<echo_session>(std::move(s))->read();
            if (++accepted < clients) accept();
        });
    }
    tcp::acceptor& acceptor;
    int clients;
    int accepted = 0;
};

// Clients that ask and compare, all of them connected at the same time; a few connect at once, so
// that the queue of the acceptor does not overflow, and when all are there, all ask again.
class echo_clients {
public:
    echo_clients(io_context& io, const tcp::endpoint& server, int count) : to(server) {
        for (int i = 0; i < count; ++i)
            clients.push_back(std::make_unique<client>(io, i));
        for (int i = 0; i < 256; ++i)
            connect_next();
    }
    [[nodiscard]] bool is_over() const {
        return answered == rounds * static_cast<int>(clients.size());
    }
    [[nodiscard]] bool all_were_answered() const { return is_over() && wrong == 0; }
    // Without the minute that the kernel remembers a closed connection.
    void reset() {
        for (auto& c : clients) {
            const linger now{1, 0};
            ::setsockopt(c->socket.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        clients.clear();
    }

private:
    static constexpr int rounds = 3;

    struct client {
        client(io_context& io, int n) : socket(io), number(n) {}
        tcp::socket socket;
        int number;
        int asked = 0;
        std::array<int, 2> question{};
        std::array<int, 2> answer{};
    };

    void connect_next() {
        if (begun == clients.size()) return;
        client& c = *clients[begun++];
        c.socket.async_connect(to, [this, &c](std::error_code error) {
            if (error) ++wrong;
            ask(c);
        });
    }
    void ask(client& c) {
        c.question = {c.number, ++c.asked};
        async_write(c.socket, buffer(c.question), [this, &c](std::error_code, std::size_t) {
            async_read(c.socket, buffer(c.answer), [this, &c](std::error_code e, std::size_t) {
                if (e || c.answer != c.question) ++wrong;
                ++answered;
                if (c.asked == 1) {
                    connect_next();
                    if (++connected < clients.size()) return;
                    for (auto& all : clients)
                        ask(*all);
                } else if (c.asked < rounds) {
                    ask(c);
                }
            });
        });
    }

    tcp::endpoint to;
    std::vector<std::unique_ptr<client>> clients;
    std::size_t begun = 0;
    std::size_t connected = 0;
    int answered = 0;
    int wrong = 0;
};

TEST_F(Tcp, EchoesManyConnections) {
    constexpr int count = 300;
    const echo_server server(acceptor, count);
    echo_clients clients(io, at, count);
    while (!clients.is_over() && io.run_one() > 0) {
    }
    EXPECT_TRUE(clients.all_were_answered());
    clients.reset();
    io.run();
    EXPECT_EQ(server.accepted, count);
}

// In two processes, since each end of a connection is a descriptor, and 20,000 is a usual limit.
TEST_F(Tcp, EchoesTenThousandConnections) {
    int count = has_sanitizer ? 1'000 : 10'000;  // sanitizers are slow, and see as much in fewer
    constexpr int spare = 100;
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit before = limit;
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < static_cast<rlim_t>(count + spare)) {
        GTEST_SKIP() << "RLIMIT_NOFILE is " << limit.rlim_max << ": no " << count
                     << " connections here";
    }

    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(50);  // if the server goes away
        io_context own(1);
        echo_clients clients(own, at, count);
        own.run();
        const bool good = clients.all_were_answered();
        clients.reset();
        ::_exit(good ? 0 : 1);
    }
    const echo_server server(acceptor, count);
    io.run();  // until the last client has gone
    EXPECT_EQ(server.accepted, count);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace verge
