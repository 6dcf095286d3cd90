// bench/queues/heap4.hpp -- ref-heap4: an indexed 4-ary heap, as one would write it by hand.
//
// Entries of 16 bytes hold the deadline, so comparing children reads one cache line or two and
// never a timer; a position map makes cancel O(log n) without a search.  Equal deadlines fire in
// any order.

#pragma once

#include "queues/queue.hpp"

#include <vector>

namespace bench {

class heap4 {
public:
    explicit heap4(std::size_t n) : position_(n, not_armed) { heap_.reserve(n); }

    void arm(std::size_t index, tick deadline) {
        heap_.push_back({});
        rise(heap_.size() - 1, {deadline, static_cast<std::uint32_t>(index)});
    }

    void cancel(std::size_t index) {
        const std::size_t hole = position_[index];
        position_[index] = not_armed;
        remove_at(hole);
    }

    template <class F>
    void advance(tick now, F&& fired) {
        while (!heap_.empty() && heap_.front().deadline <= now) {
            const entry due = heap_.front();
            position_[due.index] = not_armed;
            remove_at(0);
            fired(due.deadline);
        }
    }

    [[nodiscard]] std::optional<tick> next() const {
        return heap_.empty() ? std::nullopt : std::optional(heap_.front().deadline);
    }

    [[nodiscard]] std::size_t size() const { return heap_.size(); }

    [[nodiscard]] tick sum_of_deadlines() const {
        tick sum = 0;
        for (const std::uint32_t at : position_) {
            if (at != not_armed) sum += heap_[at].deadline;
        }
        return sum;
    }

private:
    struct entry {
        tick deadline;
        std::uint32_t index;
    };
    static constexpr std::uint32_t not_armed = ~std::uint32_t{0};

    void put(std::size_t at, const entry& e) {
        heap_[at] = e;
        position_[e.index] = static_cast<std::uint32_t>(at);
    }

    // The last entry fills the hole.
    void remove_at(std::size_t hole) {
        const entry last = heap_.back();
        heap_.pop_back();
        if (hole == heap_.size()) return;
        if (hole != 0 && last.deadline < heap_[(hole - 1) / 4].deadline) {
            rise(hole, last);
        } else {
            sink(hole, last);
        }
    }

    void rise(std::size_t hole, const entry& e) {
        while (hole != 0) {
            const std::size_t parent = (hole - 1) / 4;
            if (heap_[parent].deadline <= e.deadline) break;
            put(hole, heap_[parent]);
            hole = parent;
        }
        put(hole, e);
    }

    void sink(std::size_t hole, const entry& e) {
        const std::size_t size = heap_.size();
        for (;;) {
            const std::size_t first = hole * 4 + 1;
            if (first >= size) break;
            std::size_t least = first;
            const std::size_t end = first + 4 < size ? first + 4 : size;
            for (std::size_t child = first + 1; child < end; ++child) {
                if (heap_[child].deadline < heap_[least].deadline) least = child;
            }
            if (heap_[least].deadline >= e.deadline) break;
            put(hole, heap_[least]);
            hole = least;
        }
        put(hole, e);
    }

    std::vector<entry> heap_;
    std::vector<std::uint32_t> position_;
};

static_assert(virtual_queue<heap4>);

}  // namespace bench
