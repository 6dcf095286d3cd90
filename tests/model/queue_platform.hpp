// What the models of the fiber queues run on: relacy's atomics and lock, and a ring whose places
// know who has taken from them.
//
// Relacy reads old values, never future ones.  So it would not notice an owner that writes a place
// before a thief has read it.  These places ask relacy's clocks instead: who writes a place must
// have synchronized with everybody who took what stood there.

#pragma once

#include "relacy_std.hpp"

#include <type_traits>

constexpr unsigned most_threads = 5;

// What each thread has read from places since it last tried to move an index.  Plain: relacy runs
// one thread at a time.
struct read_log {
    struct entry {
        rl::timestamp_t* place;
        rl::timestamp_t when;
    };
    entry entries[16];
    unsigned count = 0;
    void add(entry e) {
        if (count < 16) entries[count++] = e;
    }
    void end(bool taken) {
        for (unsigned i = 0; taken && i < count; ++i)
            *entries[i].place = entries[i].when;
        count = 0;
    }
    static inline read_log* logs = nullptr;  // of the suite that runs
    static read_log& mine() { return logs[rl::ctx().threadx_->index_]; }
};

// An index: head_ is the only one that is moved by compare_exchange.
template <class T>
struct index_atomic : rl::atomic<T> {
    using rl::atomic<T>::atomic;
    bool compare_exchange_strong(T& seen, T next, rl::memory_order yes, rl::debug_info_param where,
                                 rl::memory_order no, rl::debug_info_param where_no) {
        const bool moved =
            rl::atomic<T>::compare_exchange_strong(seen, next, yes, where, no, where_no);
        read_log::mine().end(moved);
        return moved;
    }
};

template <class T>
struct place_atomic {
    rl::atomic<T> value;
    rl::timestamp_t taken_at[most_threads] = {};

    T load(rl::memory_order order, rl::debug_info_param where) {
        const T seen = value.load(order, where);
        auto* const me = rl::ctx().threadx_;
        read_log::mine().add({&taken_at[me->index_], me->own_acq_rel_order_});
        return seen;
    }
    void store(T next, rl::memory_order order, rl::debug_info_param where) {
        auto* const me = rl::ctx().threadx_;
        for (unsigned t = 0; t < rl::ctx().get_thread_count(); ++t)
            RL_ASSERT(t == me->index_ || me->acq_rel_order_[t] >= taken_at[t]);
        value.store(next, order, where);
    }
};

struct model_lock {
    rl::mutex mutex;
    void lock() { mutex.lock($); }
    void unlock() { mutex.unlock($); }
};

struct queue_model_platform {
    template <class T>
    using atomic = std::conditional_t<std::is_pointer_v<T>, place_atomic<T>, index_atomic<T>>;
    using lock = model_lock;
};
