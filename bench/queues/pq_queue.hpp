// bench/queues/pq_queue.hpp -- ref-pq: std::priority_queue with lazy deletion.
//
// It cannot erase, so a cancel only makes the entry stale: its generation is no longer the timer's.
// Stale entries leave when they come to the top.  When more than half are stale the heap is built
// anew without them: without that, far deadlines would keep them.

#pragma once

#include "queues/queue.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace bench {

class pq_queue {
public:
    explicit pq_queue(std::size_t n) : generation_(n, 0) { heap_.reserve(n); }

    void arm(std::size_t index, tick deadline) {
        heap_.push({deadline, static_cast<std::uint32_t>(index), ++generation_[index]});
        ++live_;
    }

    void cancel(std::size_t index) {
        ++generation_[index];
        --live_;
        if (heap_.size() > 2 * live_ + 64) {
            heap_.erase_if([this](const entry& e) { return is_stale(e); });
        }
    }

    template <class F>
    void advance(tick now, F&& fired) {
        while (!heap_.empty() && heap_.top().deadline <= now) {
            const entry due = heap_.top();
            heap_.pop();
            if (is_stale(due)) continue;
            ++generation_[due.index];
            --live_;
            fired(due.deadline);
        }
    }

    [[nodiscard]] std::optional<tick> next() {
        while (!heap_.empty() && is_stale(heap_.top())) {
            heap_.pop();
        }
        return heap_.empty() ? std::nullopt : std::optional(heap_.top().deadline);
    }

    [[nodiscard]] std::size_t size() const { return live_; }

    [[nodiscard]] tick sum_of_deadlines() const {
        tick sum = 0;
        heap_.for_each([&](const entry& e) { sum += is_stale(e) ? 0 : e.deadline; });
        return sum;
    }

private:
    struct entry {
        tick deadline;
        std::uint32_t index;
        std::uint32_t generation;  // even: not armed; wraps after 2^31 arms of one timer
        bool operator>(const entry& other) const { return deadline > other.deadline; }
    };

    // The container behind a priority_queue is a protected member, for just such needs.
    struct heap : std::priority_queue<entry, std::vector<entry>, std::greater<>> {
        void reserve(std::size_t n) { c.reserve(n); }

        template <class P>
        void erase_if(P&& stale) {
            std::erase_if(c, stale);
            std::make_heap(c.begin(), c.end(), comp);
        }

        template <class F>
        void for_each(F&& f) const {
            for (const entry& e : c) {
                f(e);
            }
        }
    };

    [[nodiscard]] bool is_stale(const entry& e) const {
        return generation_[e.index] != e.generation;
    }

    heap heap_;
    std::vector<std::uint32_t> generation_;
    std::size_t live_ = 0;
};

static_assert(virtual_queue<pq_queue>);

}  // namespace bench
