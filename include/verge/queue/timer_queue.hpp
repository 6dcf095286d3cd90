// verge/queue/timer_queue.hpp -- the concept that timing_wheel and timer_heap model.
//
//     template <verge::timer_queue Queue>
//     class retransmitter {
//         Queue queue_;                         // a wheel for ticks, a heap for other keys
//     };
//
// Write generic code against it to choose the queue later.  Each operation is specified in
// verge/queue/timing_wheel.hpp; one set of tests runs on both.  A queue reads no clock, takes no
// lock, and calls out only when it is not half-changed.
//
// Not for timers with callbacks and ids: local_timers (one thread), timer_thread (any thread).
//
// Thread safety: none; one thread at a time.
// Exceptions: arming may throw std::bad_alloc in a heap.

#pragma once

#include <concepts>
#include <cstddef>
#include <optional>

namespace verge {

/// An ordered set of intrusive timers, driven by the time that the caller passes.
template <class Q>
concept timer_queue = requires(Q& queue, const Q& const_queue, typename Q::timer_type& timer,
                               const typename Q::key_type& key,
                               void (*fire)(typename Q::timer_type&),
                               void (*visit)(const typename Q::timer_type&)) {
    Q(key);
    queue.arm_at(timer, key);
    queue.arm_after(timer, key - key);
    queue.arm_in_range(timer, key, key);
    { queue.cancel(timer) } -> std::same_as<bool>;
    { queue.advance(key, fire, std::size_t{1}) } -> std::same_as<std::size_t>;
    { const_queue.next_bound() } -> std::same_as<std::optional<typename Q::key_type>>;
    { const_queue.next_expiry() } -> std::same_as<std::optional<typename Q::key_type>>;
    { const_queue.now() } -> std::same_as<typename Q::key_type>;
    { const_queue.size() } -> std::same_as<std::size_t>;
    { const_queue.empty() } -> std::same_as<bool>;
    queue.clear();
    { queue.take_any() } -> std::same_as<typename Q::timer_type*>;
    const_queue.for_each(visit);
    { const_queue.check() } -> std::same_as<const char*>;
    { timer.armed() } -> std::same_as<bool>;
    { timer.deadline() } -> std::same_as<typename Q::key_type>;
};

}  // namespace verge
