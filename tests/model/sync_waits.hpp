// What the models of fibers that wait stand on: the real waiting on words, src/sync/wait.cpp, over
// atomics and locks of relacy, and waiters of this file.  To suspend and to make ready orders
// nothing here, so all order comes from what is explored.  tests/model/park_cell_model.cpp explores
// the real thing.
//
// It replaces names, for the sources that are included after it: #undef them then.

#pragma once

// Before relacy: what has std::atomics of its own that are not explored here.
// clang-format off
#include <verge/sync/detail/waiter.hpp>
#include <verge/base/clock.hpp>
#include <verge/base/detail/assert.hpp>
#include <verge/base/detail/spin_lock.hpp>
#include <verge/sync/detail/deadline_in.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "relacy_std.hpp"
// clang-format on

namespace {

// Memory that is somebody else's by now: no atomic and no lock there may be used.
struct gone_memory {
    static inline const std::byte* from = nullptr;  // of the suite that runs
    static inline const std::byte* to = nullptr;
    template <class T>
    static void is(const T& object) {
        from = reinterpret_cast<const std::byte*>(&object);
        to = from + sizeof object;
    }
    // What was used in this scope is not gone.  At its end: relacy lets others run before an
    // operation, not after it.
    struct checked {
        const void* used;
        ~checked() { RL_ASSERT(std::less<>{}(used, from) || !std::less<>{}(used, to)); }
    };
};

// An atomic that a constexpr constructor may make, though never in a constant expression.
template <class T>
class model_atomic {
public:
    constexpr model_atomic() noexcept : model_atomic(T()) {}
    constexpr model_atomic(T first) noexcept {
        if (!std::is_constant_evaluated()) make(first);
    }
    ~model_atomic() { value().~atomic(); }
    model_atomic(const model_atomic&) = delete;
    model_atomic& operator=(const model_atomic&) = delete;

    T load(rl::memory_order order, rl::debug_info_param where) const {
        const gone_memory::checked use{this};
        return value().load(order, where);
    }
    void store(T next, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        value().store(next, order, where);
    }
    T exchange(T next, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        return value().exchange(next, order, where);
    }
    T fetch_add(T n, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        return value().fetch_add(n, order, where);
    }
    T fetch_sub(T n, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        return value().fetch_sub(n, order, where);
    }
    T fetch_or(T n, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        return value().fetch_or(n, order, where);
    }
    T fetch_and(T n, rl::memory_order order, rl::debug_info_param where) {
        const gone_memory::checked use{this};
        return value().fetch_and(n, order, where);
    }
    bool compare_exchange_strong(T& seen, T next, rl::memory_order yes, rl::debug_info_param where,
                                 rl::memory_order no, rl::debug_info_param where_no) {
        const gone_memory::checked use{this};
        return value().compare_exchange_strong(seen, next, yes, where, no, where_no);
    }
    bool compare_exchange_weak(T& seen, T next, rl::memory_order yes, rl::debug_info_param where,
                               rl::memory_order no, rl::debug_info_param where_no) {
        const gone_memory::checked use{this};
        return value().compare_exchange_weak(seen, next, yes, where, no, where_no);
    }

private:
    using atomic = rl::atomic<T>;
    void make(T first) { ::new (static_cast<void*>(memory_)) atomic(first); }
    atomic& value() const { return *reinterpret_cast<atomic*>(memory_); }
    alignas(atomic) mutable std::byte memory_[sizeof(atomic)];
};

// The locks of the buckets, which are static: each gets a mutex of the suite when it is first
// locked.
struct model_lock {
    struct place {
        const model_lock* of = nullptr;
        rl::mutex mutex;
    };
    static constexpr int most = 8;
    static inline place* places = nullptr;  // of the suite that runs
    void lock() {
        const gone_memory::checked use{this};
        mutex().lock($);
    }
    void unlock() {
        const gone_memory::checked use{this};
        mutex().unlock($);
    }

private:
    rl::mutex& mutex() const {
        place* at = places;
        while (at->of != this && at->of != nullptr)
            ++at;
        RL_ASSERT(at - places < most);
        at->of = this;
        return at->mutex;
    }
};

}  // namespace

namespace std {
template <class T>
using model_atomic = ::model_atomic<T>;
}
namespace verge::detail {
using ::model_lock;
}

namespace verge::detail::sync {

// Who waits.  Plain: relacy runs one thread at a time, and changes at its own operations only.
class model_waiter {
public:
    using epoch = std::uint64_t;
    static constexpr std::uint32_t interrupt_request = 1;
    static constexpr std::uint32_t stop_request = 2;

    epoch begin_wait(bool) { return epoch_; }
    std::uint32_t requests() const { return requests_; }
    void request(std::uint32_t what) { requests_ |= what; }
    void consume_interrupt() { requests_ &= ~interrupt_request; }

    // No stop, and no deadline in force: tests/unit/sync/cancellation_test.cpp has these.
    struct wait_limit {
        time_point until;
        bool by_context = false;
        bool interruptible = true;
    };
    struct context {
        int no_unwind = 0;
    };
    wait_limit limit_of_wait(time_point own) const { return {.until = own}; }
    context in_force() const { return {}; }
    bool stop_in_force() const { return false; }
    void unwind() {}
    void end_unwinding() {}
    void forbid_unwinding() {}
    void allow_unwinding() {}

    claim_result claim(epoch of, wake_reason why) {
        if (of != epoch_) return claim_result::lost;
        ++epoch_;
        why_ = why;
        return std::exchange(parked_, false) ? claim_result::ready : claim_result::won;
    }
    void make_ready() { ready_ = true; }

    // With a deadline, that comes some time, or never.
    wake_reason suspend(epoch of, time_point deadline) {
        rl::yield(1, $);
        if (of != epoch_) return why_;
        parked_ = true;
        ready_ = false;
        while (!ready_) {
            if (deadline != never && rl::rand(3) == 0 &&
                claim(of, wake_reason::timed_out) == claim_result::ready) {
                make_ready();
            }
            rl::yield(1, $);
        }
        return why_;
    }

    static inline model_waiter* all = nullptr;  // of the suite that runs

private:
    epoch epoch_ = 1;
    std::uint32_t requests_ = 0;
    bool parked_ = false;
    bool ready_ = false;
    wake_reason why_{};
};

inline model_waiter& model_current() {
    return model_waiter::all[rl::thread_index()];
}

struct model_wait_scope {
    model_wait_scope(const model_waiter&, wait_kind) {}
};

}  // namespace verge::detail::sync

#define atomic model_atomic
#define constinit
#define current model_current
#define waiter model_waiter
#define spin_lock model_lock
#define wait_scope model_wait_scope
// clang-format off
#include "sync/wait.cpp"
// clang-format on

namespace {

template <class Suite, int Threads>
struct sync_suite : rl::test_suite<Suite, Threads> {
    verge::detail::sync::model_waiter waiters[Threads];
    model_lock::place locks[model_lock::most];
    void before() {
        gone_memory::from = gone_memory::to = nullptr;
        for (verge::bucket& each : verge::buckets)
            each.first = each.last = nullptr;
        verge::detail::sync::model_waiter::all = waiters;
        model_lock::places = locks;
        std::fill(waiters, waiters + Threads, verge::detail::sync::model_waiter());
        for (auto& each : locks)
            each.of = nullptr;
    }
};

}  // namespace
