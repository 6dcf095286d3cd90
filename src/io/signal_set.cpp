// src/io/signal_set.cpp -- the process-wide signal handler, and the channel from it to each set.

#include <verge/base/detail/kernel.hpp>
#include <verge/base/detail/os_thread.hpp>
#include <verge/io/signal_set.hpp>

#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verge::detail::io {

namespace {

constexpr int last_signal = 64;
constexpr std::uint32_t remembered = 64;  // the order of that many last arrivals is kept

std::uint64_t bit(int number) noexcept {
    return std::uint64_t{1} << (number - 1);
}

}  // namespace

// How a signal reaches a loop: the handler, which may call only async-signal-safe functions, counts
// the signal in every channel that wants it, and writes to the channel's eventfd.  Channels are
// never freed, and their descriptors never closed, so a handler that runs late still finds a valid
// channel, at worst one that no longer wants the signal.
struct signal_channel {
    int event = -1;
    std::atomic<std::uint64_t> wanted{0};                  // one bit per signal
    std::atomic<std::uint32_t> queued[last_signal + 1]{};  // by number: arrived, and not taken
    std::atomic<std::uint32_t> arrivals{0};                // how many arrived
    std::atomic<std::uint8_t> order[remembered]{};         // the numbers of the last of them
    std::atomic<std::uint64_t> taken{0};  // how many were taken; under the descriptor's lock
    int last = 0;                         // the last one taken; under the descriptor's lock
    signal_channel* next = nullptr;       // in the list of all channels; never changes
    bool in_use = false;                  // under the registry's lock
};

namespace {

using flags = signal_set_base::flags;

struct registration {
    unsigned users = 0;
    flags asked = flags::dont_care;
    struct sigaction before = {};
};

struct registry {
    thread_mutex lock;
    registration signals[last_signal + 1];  // under lock
};

registry& all_signals() {
    static registry* const one = new registry;  // never destroyed: a signal may arrive during exit
    return *one;
}

std::atomic<signal_channel*> channels{nullptr};  // the first of the list

void deliver(int number) noexcept {
    const int saved = errno;
    // acquire: pairs with the release that put a channel into the list.
    for (auto* c = channels.load(std::memory_order_acquire); c != nullptr; c = c->next) {
        // relaxed: the bit publishes nothing else.
        if ((c->wanted.load(std::memory_order_relaxed) & bit(number)) == 0) continue;
        // relaxed: the write below orders it: the loop reads the count after the eventfd.
        c->queued[number].fetch_add(1, std::memory_order_relaxed);
        // relaxed: the same.  A reader that sees the count before the number finds an old number,
        // of which none is queued, and falls back to the lowest number.
        const std::uint32_t nth = c->arrivals.fetch_add(1, std::memory_order_relaxed);
        c->order[nth % remembered].store(static_cast<std::uint8_t>(number),
                                         std::memory_order_relaxed);  // relaxed: the same
        const std::uint64_t one = 1;
        static_cast<void>(os::write(c->event, &one, sizeof one) == sizeof one);
    }
    errno = saved;
}

bool install(int number, flags how, struct sigaction* before) noexcept {
    struct sigaction action = {};
    action.sa_handler = &deliver;
    if (how != flags::dont_care) action.sa_flags = static_cast<int>(how);
    ::sigfillset(&action.sa_mask);
    return os::sigaction(number, &action, before) == 0;
}

bool take_one(signal_channel& c, int number) noexcept {
    // relaxed: as in deliver().
    if ((c.wanted.load(std::memory_order_relaxed) & bit(number)) == 0) return false;
    auto& queued = c.queued[number];
    std::uint32_t count = queued.load(std::memory_order_relaxed);  // relaxed: a number
    while (count > 0) {
        // relaxed: a number.  Fails if another one arrives, or if all are discarded.
        if (queued.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) return true;
    }
    return false;
}

// Takes the first signal that arrived since `began`, when the wait began; or else the queued one
// with the lowest number.  0: there is none.
int take_signal(signal_channel& c, std::uint32_t began) noexcept {
    const std::uint32_t came = c.arrivals.load(std::memory_order_relaxed);  // relaxed: a number
    for (std::uint32_t nth = began; came - began <= remembered && nth != came; ++nth) {
        // relaxed: a number; see deliver().
        const int number = c.order[nth % remembered].load(std::memory_order_relaxed);
        if (number != 0 && take_one(c, number)) return number;
    }
    // relaxed: as in deliver().
    for (std::uint64_t left = c.wanted.load(std::memory_order_relaxed); left != 0;
         left &= left - 1) {
        const int number = std::countr_zero(left) + 1;
        if (take_one(c, number)) return number;
    }
    return 0;
}

}  // namespace

signal_source::signal_source(loop_core& loop) : channel_(nullptr), handle_(loop) {
    const int event = os::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0) throw std::system_error(errno, std::system_category(), "eventfd");
    const std::lock_guard hold(all_signals().lock);
    // relaxed, here and below: under the lock.
    auto* c = channels.load(std::memory_order_relaxed);
    while (c != nullptr && c->in_use)
        c = c->next;
    if (c == nullptr) {
        try {
            c = new signal_channel;
        } catch (...) {
            os::close(event);
            throw;
        }
        c->event = event;
        c->next = channels.load(std::memory_order_relaxed);  // relaxed: as above
        // release: pairs with the acquire in deliver(); a handler sees the complete channel.
        channels.store(c, std::memory_order_release);
    } else {
        // A new eventfd under the old number, atomically, because a late handler may write to it.
        // Not the old one: a forked process may share it.
        os::dup3(event, c->event, O_CLOEXEC);
        os::close(event);
    }
    if (const std::error_code error = handle_.assign(c->event, reactor::after_fork::renewed)) {
        throw std::system_error(error, "epoll_ctl");
    }
    c->in_use = true;
    channel_ = c;
}

signal_source::~signal_source() {
    clear();
    static_cast<void>(handle_.release());
    const std::lock_guard hold(all_signals().lock);
    channel_->in_use = false;
}

std::error_code signal_source::add(int number, flags how) noexcept {
    if (number < 1 || number > last_signal) return error::invalid_argument;
    registry& all = all_signals();
    const std::lock_guard hold(all.lock);
    // relaxed: under the lock.
    if ((channel_->wanted.load(std::memory_order_relaxed) & bit(number)) != 0) return {};
    registration& r = all.signals[number];
    const bool first = r.users == 0;
    const bool changes = !first && how != flags::dont_care && how != r.asked;
    if (changes && r.asked != flags::dont_care) return error::invalid_argument;
    // relaxed: under the lock.  A late handler may have counted a signal for the channel's last
    // use.
    channel_->queued[number].store(0, std::memory_order_relaxed);
    // Before the handler is installed: from then on the previous action does not get the signal, so
    // this set must.  relaxed: the handler reads one bit, and nothing else depends on it; the
    // kernel's lock of the signal actions orders the two.
    channel_->wanted.fetch_or(bit(number), std::memory_order_relaxed);
    if (first || changes) {
        if (!install(number, how, first ? &r.before : nullptr)) {
            const std::error_code error(errno, std::system_category());
            // relaxed: as above.
            channel_->wanted.fetch_and(~bit(number), std::memory_order_relaxed);
            return error;
        }
        r.asked = how;
    }
    ++r.users;
    return {};
}

std::error_code signal_source::remove(int number) noexcept {
    if (number < 1 || number > last_signal) return error::invalid_argument;
    registry& all = all_signals();
    const std::lock_guard hold(all.lock);
    // relaxed: as in add().
    const std::uint64_t old = channel_->wanted.fetch_and(~bit(number), std::memory_order_relaxed);
    if ((old & bit(number)) == 0) return {};
    registration& r = all.signals[number];
    if (--r.users == 0) os::sigaction(number, &r.before, nullptr);
    return {};
}

void signal_source::clear() noexcept {
    for (int number = 1; number <= last_signal; ++number)
        remove(number);
}

std::error_code signal_work::begin(const io_handle&) noexcept {
    // relaxed: the user orders the beginning of a wait and the other uses of the set.
    began = channel->taken.load(std::memory_order_relaxed);
    began_at = channel->arrivals.load(std::memory_order_relaxed);  // relaxed: the same
    return {};
}

// Under the descriptor's lock.  One signal completes all waits that were pending when it was taken:
// those that began when fewer had been taken.
bool signal_work::attempt(std::error_code&) {
    // relaxed: under the lock.
    const std::uint64_t taken = channel->taken.load(std::memory_order_relaxed);
    if (taken == began) {
        const int next = take_signal(*channel, began_at);
        if (next == 0) return false;
        channel->last = next;
        channel->taken.store(taken + 1, std::memory_order_relaxed);  // relaxed: as above
    }
    number = channel->last;
    return true;
}

}  // namespace verge::detail::io
