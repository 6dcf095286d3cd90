#include "fiber/fiber_record.hpp"
#include <verge/fiber/wait.hpp>
#include <verge/fiber/wait_fd.hpp>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include <pthread.h>
#include <system_error>

#include <poll.h>
#include <signal.h>

namespace verge::fibers::detail {

namespace {

// The reactor of all fibers, and its thread.  Never destroyed: fibers may wait when the program
// ends.
class fd_poller {
public:
    fd_poller() {
        sigset_t all;
        sigset_t old;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &old);  // the thread inherits it: no signals for us
        try {
            std::thread([this] { run(); }).detach();
        } catch (...) {
            ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
            throw;
        }
        ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }

    static fd_poller& shared() {
        static fd_poller& one = *new fd_poller;
        return one;
    }

    // A descriptor stays registered while somebody waits for it.
    class registration {
    public:
        registration(fd_poller& of, int fd) : of_(of), fd_(fd) {
            const std::lock_guard hold(of_.lock_);
            entry& e = of_.entries_[fd];
            try {
                if (e.users == 0) e.descriptor = of_.reactor_.add(fd);
            } catch (...) {
                of_.entries_.erase(fd);
                throw;
            }
            ++e.users;
            descriptor_ = e.descriptor;
        }
        ~registration() {
            const std::lock_guard hold(of_.lock_);
            const auto at = of_.entries_.find(fd_);
            if (--at->second.users > 0) return;
            of_.reactor_.remove(at->second.descriptor);
            of_.entries_.erase(at);
        }
        registration(const registration&) = delete;
        registration& operator=(const registration&) = delete;

        [[nodiscard]] reactor::descriptor& descriptor() const noexcept { return *descriptor_; }

    private:
        fd_poller& of_;
        int fd_;
        reactor::descriptor* descriptor_ = nullptr;
    };

    [[nodiscard]] reactor& waits() noexcept { return reactor_; }

private:
    struct entry {
        reactor::descriptor* descriptor = nullptr;
        std::size_t users = 0;
    };

    void run() noexcept {
        ::pthread_setname_np(::pthread_self(), "verge-fd");
        for (;;)
            reactor_.wait(never);
    }

    reactor reactor_;
    std::mutex lock_;
    std::unordered_map<int, entry> entries_;  // under lock_
};

// On the stack of who waits.
struct readiness final : fd_operation {
    readiness(reactor::descriptor& d, fd_event e) noexcept
        : fd_operation(&attempt_it, &finish_it), of(d), event(e) {}

    static bool attempt_it(fd_operation& self) {
        auto& own = static_cast<readiness&>(self);
        return reactor::is_ready(own.of, own.event);
    }
    static void finish_it(fd_operation& self, std::error_code, void*) {
        std::atomic<std::uint32_t>& over = static_cast<readiness&>(self).over;
        // release: pairs with the acquire of who waits, who may be gone after this: notify looks at
        // the address only.
        over.store(1, std::memory_order_release);
        notify_one(over);
    }

    reactor::descriptor& of;
    fd_event event;
    std::atomic<std::uint32_t> over{0};
};

// Throws for a descriptor that is none.
bool is_ready_now(int fd, fd_event what) {
    constexpr short asked[] = {POLLIN | POLLRDHUP, POLLOUT, POLLPRI};
    pollfd look{fd, asked[static_cast<std::size_t>(what)], 0};
    if (fd < 0 || (::poll(&look, 1, 0) > 0 && (look.revents & POLLNVAL) != 0)) {
        throw std::system_error(EBADF, std::generic_category(), "verge::this_fiber::wait_fd");
    }
    return look.revents != 0;
}

}  // namespace

fd_result wait_for_fd(int fd, fd_event what, time_point deadline) {
    parkable& self = current();
    const wait_scope showing(self, wait_kind::descriptor);
    const auto asked_to_return = [&]() -> std::optional<fd_result> {
        const std::uint32_t requests = self.requests();
        if ((requests & parkable::stop_request) != 0) return fd_result::stopped;
        if (requests == 0) return std::nullopt;
        self.consume_interrupt();
        return fd_result::interrupted;
    };
    if (const auto ended = asked_to_return()) return *ended;
    if (is_ready_now(fd, what)) return fd_result::ready;
    if (deadline <= steady_source{}.now()) return fd_result::timed_out;

    fd_poller& poller = fd_poller::shared();
    const fd_poller::registration registered(poller, fd);
    readiness operation(registered.descriptor(), what);
    poller.waits().start(registered.descriptor(), what, operation);
    // The operation is on this stack: it is over when this returns, however that is.
    const auto take_back = [&] {
        if (poller.waits().cancel(registered.descriptor(), what, operation)) return true;
        // acquire: pairs with finish_it().
        while (operation.over.load(std::memory_order_acquire) == 0)
            static_cast<void>(wait_uninterrupted(operation.over, 0));
        return false;
    };
    try {
        // acquire: pairs with finish_it().
        while (operation.over.load(std::memory_order_acquire) == 0) {
            fd_result ended{};
            switch (wait(operation.over, 0, deadline)) {
                case wait_result::notified:
                case wait_result::changed:
                    continue;
                case wait_result::timed_out:
                    ended = fd_result::timed_out;
                    break;
                case wait_result::interrupted:
                    ended = fd_result::interrupted;
                    break;
                case wait_result::stopped:
                    ended = fd_result::stopped;
                    break;
            }
            static_cast<void>(take_back());
            return ended;
        }
    } catch (...) {
        static_cast<void>(take_back());
        throw;
    }
    return fd_result::ready;
}

}  // namespace verge::fibers::detail

namespace verge::this_fiber {

fibers::fd_result wait_fd(int fd, fd_event what, time_point deadline) {
    return fibers::detail::wait_for_fd(fd, what, deadline);
}

}  // namespace verge::this_fiber
