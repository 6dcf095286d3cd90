// bench/queues/multimap_queue.hpp -- ref-multimap: what the standard library offers at once.
//
// A node a timer, from malloc, freed at cancel; each timer keeps its iterator.

#pragma once

#include "queues/queue.hpp"

#include <map>
#include <vector>

namespace bench {

class multimap_queue {
public:
    explicit multimap_queue(std::size_t n) : where_(n, timers_.end()) {}

    void arm(std::size_t index, tick deadline) {
        where_[index] = timers_.emplace(deadline, static_cast<std::uint32_t>(index));
    }

    void cancel(std::size_t index) {
        timers_.erase(where_[index]);
        where_[index] = timers_.end();
    }

    template <class F>
    void advance(tick now, F&& fired) {
        while (!timers_.empty() && timers_.begin()->first <= now) {
            const auto [deadline, index] = *timers_.begin();
            cancel(index);
            fired(deadline);
        }
    }

    [[nodiscard]] std::optional<tick> next() const {
        return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first);
    }

    [[nodiscard]] std::size_t size() const { return timers_.size(); }

    [[nodiscard]] tick sum_of_deadlines() const {
        tick sum = 0;
        for (const auto& [deadline, index] : timers_) {
            sum += deadline;
        }
        return sum;
    }

private:
    using map = std::multimap<tick, std::uint32_t>;

    map timers_;
    std::vector<map::iterator> where_;
};

static_assert(virtual_queue<multimap_queue>);

}  // namespace bench
