// bench/queues/queue.hpp -- what the single-threaded workloads ask of a queue in virtual time.
//
// A queue holds n timers, named by their index.  The adapters in this folder bring Verge's queues
// and the references to this form; they are inlined away, and all are given the same help: memory
// for n timers is reserved up front, and nodes are in one contiguous array.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace bench {

using tick = std::uint64_t;

template <class Q>
concept virtual_queue = std::constructible_from<Q, std::size_t> &&
    requires(Q queue, std::size_t index, tick time, void (*fired)(tick deadline)) {
    queue.arm(index, time);      // precondition: not armed
    queue.cancel(index);         // precondition: armed
    queue.advance(time, fired);  // fires all that are due, in the order of their deadlines
    { queue.next() } -> std::same_as<std::optional<tick>>;
    { queue.size() } -> std::same_as<std::size_t>;
    { queue.sum_of_deadlines() } -> std::same_as<tick>;  // of the armed timers
};

}  // namespace bench
