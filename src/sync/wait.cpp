// src/sync/wait.cpp -- the hash table of words that are waited on: wait, notify, requeue.

#include <verge/base/detail/spin_lock.hpp>
#include <verge/sync/detail/waiter.hpp>
#include <verge/sync/wait.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace verge {

namespace {

using detail::sync::claim_result;
using detail::sync::waiter;
using detail::sync::wake_reason;
using word_type = const std::atomic<std::uint32_t>;
using detail::lock_scope;
using detail::spin_lock;

struct bucket;

// One wait.  On the waiter's stack: it is linked and unlinked under its bucket's lock, and the
// waiter does not return before it is unlinked.  A notifier unlinks it before it claims the wait,
// and accesses it afterwards only if the waiter cannot run before the notifier makes it ready.
struct wait_node {
    waiter* who;
    waiter::epoch epoch;
    word_type* word;  // changed by requeue, under the locks of both buckets
    std::atomic<bucket*> home;
    wait_node* next = nullptr;
    wait_node* prev = nullptr;
    std::uint64_t ticket = 0;  // in order of arrival in its bucket
    bool linked = false;
};

// The waiters of all words with one hash value, in order of arrival.
struct alignas(64) bucket {
    spin_lock lock;
    wait_node* first VERGE_GUARDED_BY(lock) = nullptr;
    wait_node* last VERGE_GUARDED_BY(lock) = nullptr;
    std::uint64_t tickets VERGE_GUARDED_BY(lock) = 0;  // given so far

    void link(wait_node& w) noexcept VERGE_REQUIRES(lock) {
        w.prev = last;
        w.next = nullptr;
        (last == nullptr ? first : last->next) = &w;
        last = &w;
        w.ticket = tickets++;
        w.linked = true;
    }
    void unlink(wait_node& w) noexcept VERGE_REQUIRES(lock) {
        (w.prev == nullptr ? first : w.prev->next) = w.next;
        (w.next == nullptr ? last : w.next->prev) = w.prev;
        w.linked = false;
    }
    // Undoes an unlink, if nothing else has changed since.
    void relink(wait_node& w) noexcept VERGE_REQUIRES(lock) {
        (w.prev == nullptr ? first : w.prev->next) = &w;
        (w.next == nullptr ? last : w.next->prev) = &w;
        w.linked = true;
    }
};

// A power of two.  Two words in one bucket make the walk longer, and have no other effect.
constexpr std::size_t bucket_count = 1024;
constinit bucket buckets[bucket_count];

bucket& bucket_of(word_type& word) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(&word);
    return buckets[(address * 0x9E37'79B9'7F4A'7C15U) >> (64 - 10)];
}
static_assert(bucket_count == 1U << 10);

// Locks the bucket that the waiter is in, which requeue may change.
bucket& lock_home(wait_node& w) noexcept VERGE_NO_THREAD_SAFETY_ANALYSIS {
    for (;;) {
        bucket* const home = w.home.load(std::memory_order_relaxed);  // relaxed: compared again
        home->lock.lock();
        if (home == w.home.load(std::memory_order_relaxed))
            return *home;  // relaxed: under its lock
        home->lock.unlock();
    }
}

// What a request means that has ended a wait, or would.  Nothing: a stop that is not in force,
// which does not count.
std::optional<wait_result> requested(waiter& self) noexcept {
    if (self.stop_in_force()) return wait_result::stopped;
    if ((self.requests() & waiter::interrupt_request) == 0) return std::nullopt;
    self.consume_interrupt();
    return wait_result::interrupted;
}

// Why a change of the word followed by a notify is not lost: the waiter reads the word under the
// bucket's lock, and the notifier takes that lock after the change.  If the notifier is first, the
// waiter sees the change; if it is second, it sees the waiter.
detail::sync::linked_result wait_on(
    word_type& word, std::uint32_t expected, time_point deadline, bool interruptible,
    wait_kind kind, detail::sync::linked_hook hook) VERGE_NO_THREAD_SAFETY_ANALYSIS {
    waiter& self = detail::sync::current();
    bucket& b = bucket_of(word);
    const waiter::wait_limit limit =
        interruptible ? self.limit_of_wait(deadline)
                      : waiter::wait_limit{.until = deadline, .interruptible = false};
    wait_node w{
        .who = &self, .epoch = self.begin_wait(limit.interruptible), .word = &word, .home = &b};
    if (limit.interruptible && self.requests() != 0) {
        if (const auto ended = requested(self)) return {.why = *ended};
    }
    b.lock.lock();
    // acquire: a caller that does not wait sees what was written before the change.
    if (word.load(std::memory_order_acquire) != expected) {
        b.lock.unlock();
        return {.why = wait_result::changed};
    }
    b.link(w);
    b.lock.unlock();
    if (hook.call != nullptr) hook.call(hook.context);
    const auto leave_queue = [&]() VERGE_NO_THREAD_SAFETY_ANALYSIS {
        bucket& home = lock_home(w);
        if (w.linked) home.unlink(w);
        home.lock.unlock();
    };
    const detail::sync::wait_scope showing(self, kind);
    wake_reason why{};
    try {
        why = self.suspend(w.epoch, limit.until);
    } catch (...) {
        leave_queue();
        throw;
    }
    if (why != wake_reason::notified) leave_queue();  // a notifier has unlinked it
    const bool moved = w.word != &word;
    switch (why) {
        case wake_reason::notified:
            break;
        case wake_reason::timed_out:
            return {limit.by_context ? wait_result::stopped : wait_result::timed_out, moved};
        case wake_reason::interrupted:
            // Nothing counts: as if notified for nothing.  The next wait is not interruptible.
            if (const auto ended = requested(self)) return {*ended, moved};
            break;
    }
    return {wait_result::notified, moved};
}

}  // namespace

wait_result wait(word_type& word, std::uint32_t expected, time_point deadline) {
    const wait_result why = wait_on(word, expected, deadline, true, wait_kind::word, {}).why;
    if (why == wait_result::stopped) detail::sync::current().unwind();
    return why;
}

wait_result wait_joining(word_type& word, std::uint32_t expected, time_point deadline) {
    waiter& self = detail::sync::current();
    if (self.in_force().no_unwind != 0) return wait_uninterrupted(word, expected, deadline);
    // An interrupt that comes meanwhile is for the next wait.
    class put_back {
    public:
        explicit put_back(waiter& of) noexcept : self_(of) {}
        ~put_back() {
            if (interrupted) self_.request(waiter::interrupt_request);
        }
        put_back(const put_back&) = delete;
        put_back& operator=(const put_back&) = delete;

        bool interrupted = false;

    private:
        waiter& self_;
    } keep(self);
    for (;;) {
        const wait_result why = wait_on(word, expected, deadline, true, wait_kind::word, {}).why;
        if (why == wait_result::stopped) self.unwind();
        if (why != wait_result::interrupted) return why;
        keep.interrupted = true;
    }
}

detail::sync::linked_result detail::sync::wait_linked(word_type& word, std::uint32_t expected,
                                                      time_point deadline, linked_hook hook) {
    return wait_on(word, expected, deadline, true, wait_kind::condition, hook);
}

wait_result wait_uninterrupted(word_type& word, std::uint32_t expected, time_point deadline) {
    return wait_on(word, expected, deadline, false, wait_kind::word, {}).why;
}

namespace {

// Waiters that were claimed and must be made ready: until then their nodes stay valid.
class claimed_list {
public:
    void push(wait_node& w) noexcept {
        w.next = nullptr;
        (first_ == nullptr ? first_ : last_->next) = &w;
        last_ = &w;
    }
    void make_all_ready() noexcept {
        for (wait_node* w = first_; w != nullptr;) {
            waiter& who = *w->who;
            w = w->next;  // before its owner may run
            who.make_ready();
        }
    }

private:
    wait_node* first_ = nullptr;
    wait_node* last_ = nullptr;
};

// Claims the first `n` waiters of `word` with tickets below `before`; returns how many.  A claim
// that is lost was lost to a timer or an interrupt: continues with the next waiter.  `more` is set
// if it stopped at the size of a group.
std::size_t claim_some(bucket& b, word_type& word, std::size_t n, std::uint64_t before,
                       claimed_list& ready, bool& more) noexcept VERGE_REQUIRES(b.lock) {
    constexpr std::size_t group = 64;  // claims per hold of the lock
    std::size_t claimed = 0;
    wait_node* next = nullptr;
    for (wait_node* w = b.first; w != nullptr && claimed < n; w = next) {
        next = w->next;
        if (w->word != &word) continue;
        if (w->ticket >= before) break;
        if (claimed == group) {
            more = true;
            break;
        }
        b.unlink(*w);
        switch (w->who->claim(w->epoch, wake_reason::notified)) {
            case claim_result::lost:
                b.relink(*w);
                continue;
            case claim_result::ready:
                ready.push(*w);
                break;
            case claim_result::won:
                break;
        }
        ++claimed;
    }
    return claimed;
}

}  // namespace

std::size_t notify_n(word_type& word, std::size_t n) noexcept {
    bucket& b = bucket_of(word);
    if (n == 0) return 0;
    std::size_t woken = 0;
    std::optional<std::uint64_t> before;  // waiters that return and wait again are not woken twice
    bool more = true;
    while (more && woken < n) {
        more = false;
        claimed_list ready;
        {
            const lock_scope hold(b.lock);
            if (!before) before = b.tickets;
            woken += claim_some(b, word, n - woken, *before, ready, more);
        }
        ready.make_all_ready();
    }
    return woken;
}

std::size_t requeue(word_type& from, std::uint32_t expected, word_type& to, std::size_t wake,
                    std::size_t move) noexcept VERGE_NO_THREAD_SAFETY_ANALYSIS {
    bucket& a = bucket_of(from);
    bucket& b = bucket_of(to);
    if (&from == &to) return 0;
    // In order of address: two requeues cannot deadlock.
    bucket& low = &a < &b ? a : b;
    bucket& high = &a < &b ? b : a;
    claimed_list ready;
    std::size_t count = 0;
    low.lock.lock();
    if (&high != &low) high.lock.lock();
    // relaxed: under the lock that every waiter of `from` takes.
    if (from.load(std::memory_order_relaxed) == expected) {
        bool more = true;
        while (more && count < wake) {
            more = false;
            count += claim_some(a, from, wake - count, a.tickets, ready, more);
        }
        wait_node* next = nullptr;
        for (wait_node* w = a.first; w != nullptr && move > 0; w = next) {
            next = w->next;
            if (w->word != &from) continue;
            a.unlink(*w);
            w->word = &to;
            w->home.store(&b, std::memory_order_relaxed);  // relaxed: under both locks
            b.link(*w);
            ++count;
            --move;
        }
    }
    if (&high != &low) high.lock.unlock();
    low.lock.unlock();
    ready.make_all_ready();
    return count;
}

std::size_t detail::sync::waiters_of(word_type& word) noexcept {
    bucket& b = bucket_of(word);
    const lock_scope hold(b.lock);
    std::size_t count = 0;
    for (const wait_node* w = b.first; w != nullptr; w = w->next)
        count += w->word == &word ? 1 : 0;
    return count;
}

std::size_t notify_one(word_type& word) noexcept {
    return notify_n(word, 1);
}

std::size_t notify_all(word_type& word) noexcept {
    return notify_n(word, std::numeric_limits<std::size_t>::max());
}

}  // namespace verge
