#include <verge/io/signal_set.hpp>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <signal.h>

namespace verge::detail {

// How a signal gets into a loop: the handler, which may do next to nothing, writes the number into
// the pipe of every channel that wants it.  Channels are never freed and pipes never closed, so a
// handler that runs late writes into a pipe of ours, at worst into one that ignores it.
struct signal_source::channel {
    int ends[2] = {-1, -1};
    std::atomic<std::uint64_t> wanted{0};  // a bit a signal
    channel* next = nullptr;               // in the list of all, for ever
    bool in_use = false;                   // under the lock
};

namespace {

constexpr int last_signal = 64;

struct registry {
    std::mutex lock;
    unsigned users[last_signal + 1] = {};           // under lock
    struct sigaction before[last_signal + 1] = {};  // under lock
};

registry& all_signals() {
    static registry* const one = new registry;  // for ever: signals come at the end, too
    return *one;
}

std::uint64_t bit(int number) noexcept {
    return std::uint64_t{1} << (number - 1);
}

std::atomic<void*> channels{nullptr};  // the first of the list

}  // namespace

namespace {

template <class Channel>
void deliver(int number) noexcept {
    const int saved = errno;
    // acquire: pairs with the release that put a channel into the list.
    for (auto* c = static_cast<Channel*>(channels.load(std::memory_order_acquire)); c != nullptr;
         c = c->next) {
        // relaxed: a bit that stands for itself.
        if ((c->wanted.load(std::memory_order_relaxed) & bit(number)) == 0) continue;
        const auto byte = static_cast<unsigned char>(number);
        static_cast<void>(::write(c->ends[1], &byte, 1) == 1);
    }
    errno = saved;
}

}  // namespace

signal_source::signal_source(scheduler& loop) : channel_(nullptr), handle_(loop) {
    const std::lock_guard hold(all_signals().lock);
    // relaxed, here and below: under the lock.
    auto* c = static_cast<channel*>(channels.load(std::memory_order_relaxed));
    while (c != nullptr && c->in_use)
        c = c->next;
    if (c == nullptr) {
        auto made = std::make_unique<channel>();
        if (::pipe2(made->ends, O_CLOEXEC | O_NONBLOCK) != 0) {
            throw std::system_error(errno, std::system_category(), "pipe2");
        }
        c = made.release();
        c->next =
            static_cast<channel*>(channels.load(std::memory_order_relaxed));  // relaxed: as above
        // release: a handler that finds it sees it complete.
        channels.store(c, std::memory_order_release);
    }
    unsigned char old = 0;  // what came for the one before
    while (::read(c->ends[0], &old, 1) == 1) {
    }
    if (const std::error_code error = handle_.assign(c->ends[0])) {
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

std::error_code signal_source::add(int number) noexcept {
    if (number < 1 || number > last_signal) return error::invalid_argument;
    registry& all = all_signals();
    const std::lock_guard hold(all.lock);
    // relaxed: under the lock.
    if ((channel_->wanted.load(std::memory_order_relaxed) & bit(number)) != 0) return {};
    if (all.users[number] == 0) {
        struct sigaction action = {};
        action.sa_handler = &deliver<channel>;
        action.sa_flags = SA_RESTART;
        ::sigfillset(&action.sa_mask);
        if (::sigaction(number, &action, &all.before[number]) != 0) {
            return {errno, std::system_category()};
        }
    }
    ++all.users[number];
    // relaxed: the handler reads one bit, and nothing through it.
    channel_->wanted.fetch_or(bit(number), std::memory_order_relaxed);
    return {};
}

std::error_code signal_source::remove(int number) noexcept {
    if (number < 1 || number > last_signal) return error::invalid_argument;
    registry& all = all_signals();
    const std::lock_guard hold(all.lock);
    // relaxed: as in add().
    const std::uint64_t old = channel_->wanted.fetch_and(~bit(number), std::memory_order_relaxed);
    if ((old & bit(number)) == 0) return {};
    if (--all.users[number] == 0) ::sigaction(number, &all.before[number], nullptr);
    return {};
}

void signal_source::clear() noexcept {
    for (int number = 1; number <= last_signal; ++number)
        remove(number);
}

bool signal_work::attempt(std::error_code& error) {
    unsigned char byte = 0;
    const io_result got = read_some(fd, &byte, 1);
    error = got.error;
    number = byte;
    return !got.would_block;
}

}  // namespace verge::detail
