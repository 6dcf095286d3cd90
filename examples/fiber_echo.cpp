// An echo server where each connection is a fiber: read, write, and hang up after half a second of
// silence.  The clients are fibers too; one of them sends nothing.
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/fibers/wait_fd.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using verge::fibers::fd_result;
using verge::fibers::scheduler;

class descriptor {
public:
    explicit descriptor(int fd, const char* call = "socket") : fd_(fd) {
        if (fd < 0) throw std::system_error(errno, std::generic_category(), call);
    }
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&&) = delete;
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_;
};

bool wait_a_while(const descriptor& d, verge::fd_event what) {
    const verge::time_point deadline = verge::deadline_after(verge::steady_source{}.now(), 500ms);
    return verge::this_fiber::wait_fd(d.get(), what, deadline) == fd_result::ready;
}

// 0: the end, or silence for too long.
std::size_t read_some(const descriptor& d, char* to, std::size_t size) {
    for (;;) {
        const ssize_t n = ::read(d.get(), to, size);
        if (n >= 0) return static_cast<std::size_t>(n);
        if (errno != EAGAIN || !wait_a_while(d, verge::fd_event::read)) return 0;
    }
}

bool write_all(const descriptor& d, const char* from, std::size_t size) {
    while (size > 0) {
        const ssize_t n = ::write(d.get(), from, size);
        if (n > 0) {
            from += n;
            size -= static_cast<std::size_t>(n);
        } else if (errno != EAGAIN || !wait_a_while(d, verge::fd_event::write)) {
            return false;
        }
    }
    return true;
}

void serve(const descriptor& connection) {
    char buffer[1024];
    while (const std::size_t n = read_some(connection, buffer, sizeof buffer))
        if (!write_all(connection, buffer, n)) return;
}

bool ask(const sockaddr_in& server, const std::string& text) {
    const descriptor own(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(own.get(), reinterpret_cast<const sockaddr*>(&server), sizeof server) != 0 &&
        (errno != EINPROGRESS || !wait_a_while(own, verge::fd_event::write))) {
        return false;
    }
    if (!write_all(own, text.data(), text.size())) return false;
    std::string answer(text.size(), '\0');
    std::size_t have = 0;
    while (have < answer.size()) {
        const std::size_t n = read_some(own, answer.data() + have, answer.size() - have);
        if (n == 0) return false;
        have += n;
    }
    return answer == text;
}

}  // namespace

int main() {
    constexpr int clients = 200;
    scheduler fibers;
    const descriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening.get(), raw, size) != 0 || ::listen(listening.get(), clients) != 0 ||
        ::getsockname(listening.get(), raw, &size) != 0) {
        std::perror("listen");
        return 1;
    }

    auto server = fibers.spawn([&] {
        while (verge::this_fiber::wait_fd(listening.get(), verge::fd_event::read) ==
               fd_result::ready) {
            const int fd =
                ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0) continue;
            fibers.spawn([d = descriptor(fd)] { serve(d); }).detach();
        }
    });

    std::vector<verge::fibers::fiber<bool>> asking;
    for (int i = 0; i < clients; ++i) {
        const std::string text = i == 0 ? std::string() : "hello from " + std::to_string(i);
        asking.push_back(fibers.spawn([&address, text] { return ask(address, text); }));
    }
    int answered = 0;
    for (auto& each : asking)
        answered += each.join() ? 1 : 0;
    std::printf("%d of %d clients had their text back\n", answered, clients);
    server.request_stop();
    server.join();
    return answered == clients ? 0 : 1;
}
