// bench/rpc_cross/batch_queue.hpp -- a queue of pointers from one thread to one other.
//
// A ring with two counters.  It never fills: it has room for every batch there is.

#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

namespace bench {

template <class T>
class batch_queue {
public:
    explicit batch_queue(std::size_t most)
        : mask_(std::bit_ceil(most) - 1), state_(std::make_unique<state>(mask_ + 1)) {}

    /// By the one producer.
    void push(T* item) {
        const std::size_t tail = state_->tail.load(std::memory_order_relaxed);  // relaxed: own
        state_->ring[tail & mask_] = item;
        // release: pairs with the acquire in pop; the batch's contents are seen with it
        state_->tail.store(tail + 1, std::memory_order_release);
    }

    /// By the one consumer; null if there is none.
    T* pop() {
        const std::size_t head = state_->head;
        // acquire: pairs with the release in push
        if (head == state_->tail.load(std::memory_order_acquire)) return nullptr;
        state_->head = head + 1;
        return state_->ring[head & mask_];
    }

private:
    struct state {
        explicit state(std::size_t size) : ring(std::make_unique<T*[]>(size)) {}

        std::unique_ptr<T*[]> ring;
        alignas(64) std::atomic<std::size_t> tail{0};  // written by the producer
        alignas(64) std::size_t head = 0;              // written and read by the consumer
    };

    std::size_t mask_;
    std::unique_ptr<state> state_;
};

}  // namespace bench
