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
constexpr std::uint32_t remembered = 64;  // arrivals, of which the order is known

std::uint64_t bit(int number) noexcept {
    return std::uint64_t{1} << (number - 1);
}

}  // namespace

// How a signal gets into a loop: the handler, which may do next to nothing, counts it in every
// channel that wants it, and writes to the channel's eventfd.  Channels are never freed and never
// closed, so a handler that runs late counts in one of ours, at worst in one that ignores it.
struct signal_channel {
    int event = -1;
    std::atomic<std::uint64_t> wanted{0};                  // a bit a signal
    std::atomic<std::uint32_t> queued[last_signal + 1]{};  // by number: came, and not taken
    std::atomic<std::uint32_t> arrivals{0};                // how many came
    std::atomic<std::uint8_t> order[remembered]{};         // the numbers of the last of them
    std::atomic<std::uint64_t> taken{0};  // how many were; under the descriptor's lock
    int last = 0;                         // the last one; under the descriptor's lock
    signal_channel* next = nullptr;       // in the list of all, for ever
    bool in_use = false;                  // under the lock of all
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
    static registry* const one = new registry;  // for ever: signals come at the end, too
    return *one;
}

std::atomic<signal_channel*> channels{nullptr};  // the first of the list

void deliver(int number) noexcept {
    const int saved = errno;
    // acquire: pairs with the release that put a channel into the list.
    for (auto* c = channels.load(std::memory_order_acquire); c != nullptr; c = c->next) {
        // relaxed: a bit that stands for itself.
        if ((c->wanted.load(std::memory_order_relaxed) & bit(number)) == 0) continue;
        // relaxed: who is woken by the write below looks at it.
        c->queued[number].fetch_add(1, std::memory_order_relaxed);
        // relaxed: the same.  Who sees the count without the number finds none of that number.
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
        // relaxed: a number.  It fails where one more comes, or all are dropped.
        if (queued.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) return true;
    }
    return false;
}

// Takes the first signal that came since `began`, for a wait that was there then; or the queued one
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
        // release: a handler that finds it sees it complete.
        channels.store(c, std::memory_order_release);
    } else {
        // Of the same number, at once: a late handler may write to it.  The old one may be shared
        // with a process that has forked.
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
    // relaxed: a handler that ran late may have counted one for the last who wanted it.
    channel_->queued[number].store(0, std::memory_order_relaxed);
    // Before the handler is there: it takes the signal from whoever had it, and must not lose it.
    // relaxed: the handler reads one bit, and nothing through it; the kernel's lock of the actions
    // orders it.
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
    // relaxed: in the user's order; see attempt().
    began = channel->taken.load(std::memory_order_relaxed);
    began_at = channel->arrivals.load(std::memory_order_relaxed);  // relaxed: the same
    return {};
}

// Under the descriptor's lock.  One signal is for all who wait when it is taken: those that began
// before that one was.
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
