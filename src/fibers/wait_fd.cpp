// src/fibers/wait_fd.cpp -- the poller thread of all fibers, and a wait for a set of events.

#include "fibers/fiber_record.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/fibers/wait_fd.hpp>
#include <verge/sync/cancellation.hpp>
#include <verge/sync/wait.hpp>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <unordered_map>

#include <poll.h>

namespace verge::fibers::detail {

namespace {

using verge::detail::os_thread;
using verge::detail::thread_mutex;

// The reactor of all fibers, and its thread.  Never destroyed: fibers may wait when the program
// exits.
class fd_poller {
public:
    fd_poller() { os_thread(&thread_main, this, {.name = "verge-fd"}).detach(); }

    static fd_poller& shared() {
        static fd_poller& one = *new fd_poller;
        return one;
    }

    // A descriptor stays registered while a fiber waits for it.
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
            // The reactor frees removed descriptors when its wait() returns, which may take long if
            // there are no events.
            if (++of_.removed_ % removed_at_most == 0) of_.reactor_.interrupt();
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
    // Descriptors that are removed and not yet freed, approximately.
    static constexpr std::uint64_t removed_at_most = 64;

    struct entry {
        reactor::descriptor* descriptor = nullptr;
        std::size_t users = 0;
    };

    static void* thread_main(void* self) noexcept {
        for (;;)
            static_cast<fd_poller*>(self)->reactor_.wait(never);
    }

    reactor reactor_;
    thread_mutex lock_;
    std::unordered_map<int, entry> entries_;  // under lock_
    std::uint64_t removed_ = 0;               // so far; under lock_
};

constexpr fd_event all_events[] = {fd_event::read, fd_event::write, fd_event::error};

// The events of `asked` that are ready now.  Nullopt if `fd` is not open.
std::optional<fd_events> look(int fd, fd_events asked) noexcept {
    constexpr short wanted[] = {POLLIN | POLLRDHUP, POLLOUT, POLLPRI};
    pollfd poll{fd, 0, 0};
    for (const fd_event each : all_events) {
        if (!asked.contains(each)) continue;
        poll.events = static_cast<short>(poll.events | wanted[static_cast<std::size_t>(each)]);
    }
    if (fd < 0) return std::nullopt;
    if (verge::detail::os::poll(&poll, 1, 0) <= 0) return fd_events{};
    if ((poll.revents & POLLNVAL) != 0) return std::nullopt;
    if ((poll.revents & (POLLERR | POLLHUP)) != 0) return asked;
    fd_events came;
    for (const fd_event each : all_events) {
        if (!asked.contains(each)) continue;
        if ((poll.revents & wanted[static_cast<std::size_t>(each)]) != 0) came |= each;
    }
    return came;
}

// One wait for a set of events: an operation for each.  On the stack of the waiter, which takes all
// of them back before it returns: each is cancelled, or its bit of over_ is set, which is the last
// access to it.  tests/model/fiber_handover_model.cpp explores this source.
class set_wait {
public:
    set_wait(reactor& at, reactor::descriptor& of, fd_events asked) noexcept
        : reactor_(at), descriptor_(of), asked_(asked) {
        for (part& each : parts_) {
            if (!asked.contains(each.event) || any_over()) continue;
            each.of = this;
            at.start(of, each.event, each);
        }
    }
    ~set_wait() { take_back(); }
    set_wait(const set_wait&) = delete;
    set_wait& operator=(const set_wait&) = delete;

    [[nodiscard]] bool any_over() const noexcept {
        return over_.load(std::memory_order_relaxed) != 0;  // relaxed: take_back() orders it
    }
    // Returns why the wait ended; `changed` if an operation has finished.
    wait_result wait(time_point deadline) { return verge::wait(over_, 0, deadline); }

    // Ends all operations.  Returns the events that arrived.
    fd_events take_back() noexcept {
        fd_events came;
        for (part& each : parts_) {
            if (each.of == nullptr) continue;
            if (!reactor_.cancel(descriptor_, each.event, each)) wait_for_the_end_of(each);
            came |= each.came;
            each.of = nullptr;
        }
        return came;
    }

private:
    struct part final : fd_operation {
        explicit part(fd_event e) noexcept : fd_operation(&attempt_it, &finish_it), event(e) {}

        // Checks the whole set, so that a waiter woken by one event also gets the others.
        static bool attempt_it(fd_operation& self) {
            auto& own = static_cast<part&>(self);
            const set_wait& wait = *own.of;
            own.came = look(reactor::fd_of(wait.descriptor_), wait.asked_).value_or(wait.asked_);
            return !own.came.empty();
        }
        static void finish_it(fd_operation& self, std::error_code, void*) {
            const auto& own = static_cast<part&>(self);
            std::atomic<std::uint32_t>& over = own.of->over_;
            // release: the last access to this operation; pairs with wait_for_the_end_of(), whose
            // caller may return after this: notify uses the address only.
            over.fetch_or(own.bit(), std::memory_order_release);
            notify_one(over);
        }
        [[nodiscard]] std::uint32_t bit() const noexcept {
            return std::uint32_t{1} << static_cast<unsigned>(event);
        }

        const fd_event event;
        fd_events came;          // written by attempts, under the descriptor's lock
        set_wait* of = nullptr;  // from its start to when it is taken back
    };

    // It has finished, or the thread that took it from the reactor is about to set its bit.
    void wait_for_the_end_of(const part& one) noexcept {
        for (;;) {
            // acquire: pairs with finish_it().
            const std::uint32_t seen = over_.load(std::memory_order_acquire);
            if ((seen & one.bit()) != 0) return;
            static_cast<void>(wait_uninterrupted(over_, seen));
        }
    }

    reactor& reactor_;
    reactor::descriptor& descriptor_;
    const fd_events asked_;
    std::atomic<std::uint32_t> over_{0};  // a bit for each part
    part parts_[3] = {part(fd_event::read), part(fd_event::write), part(fd_event::error)};
};

// Throws if `fd` is not open.
fd_events ready_now(int fd, fd_events asked) {
    const std::optional<fd_events> came = look(fd, asked);
    if (!came) {
        throw std::system_error(EBADF, std::generic_category(), "verge::this_fiber::wait_fd");
    }
    return *came;
}

}  // namespace

// The wait itself, for a descriptor that is not ready.
fd_outcome wait_in_poller(int fd, fd_events asked, time_point deadline) {
    const no_unwind here;  // take_back() comes first
    fd_poller& poller = fd_poller::shared();
    const fd_poller::registration registered(poller, fd);
    set_wait waiting(poller.waits(), registered.descriptor(), asked);
    fd_result ended = fd_result::ready;
    while (!waiting.any_over() && ended == fd_result::ready) {
        switch (waiting.wait(deadline)) {
            case wait_result::notified:
            case wait_result::changed:
                break;
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
    }
    const fd_events came = waiting.take_back();
    // Events that arrived at the last moment are reported instead of a time-out; but not instead of
    // an interrupt, which has been consumed.
    if (ended == fd_result::timed_out && !came.empty()) ended = fd_result::ready;
    return {ended, ended == fd_result::ready ? came : fd_events{}};
}

fd_outcome wait_for_fd(int fd, fd_events asked, time_point deadline) {
    if (asked.empty()) throw std::invalid_argument("verge::this_fiber::wait_fd: no event");
    waiter& self = current();
    const wait_scope showing(self, wait_kind::descriptor);
    if (self.stop_in_force()) {
        self.unwind();
        return {fd_result::stopped};
    }
    if ((self.requests() & waiter::interrupt_request) != 0) {
        self.consume_interrupt();
        return {fd_result::interrupted};
    }
    if (const fd_events came = ready_now(fd, asked); !came.empty()) {
        return {fd_result::ready, came};
    }
    if (deadline <= steady_source{}.now()) return {fd_result::timed_out};
    const fd_outcome outcome = wait_in_poller(fd, asked, deadline);
    if (outcome == fd_result::stopped) self.unwind();
    return outcome;
}

}  // namespace verge::fibers::detail

namespace verge::this_fiber {

fibers::fd_outcome wait_fd(int fd, fd_events events, time_point deadline) {
    return fibers::detail::wait_for_fd(fd, events, deadline);
}

}  // namespace verge::this_fiber
