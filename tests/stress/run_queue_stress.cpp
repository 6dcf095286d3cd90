// Real threads: one owner and eight thieves, who also steal from each other.  Each task is run
// once.

#include <verge/fibers/detail/run_queue.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verge::fibers::detail {
namespace {

constexpr std::size_t items = 512 * 1024;
constexpr std::size_t thieves = 8;

struct item {
    item* next = nullptr;
    std::uint64_t payload = 0;  // plain: ThreadSanitizer sees who reads it too early
    unsigned runs = 0;
};

template <std::size_t Capacity>
void each_item_once() {
    using queue = run_queue<item, queue_platform, Capacity>;
    std::vector<item> all(items);
    std::vector<std::unique_ptr<queue>> queues;
    for (std::size_t i = 0; i <= thieves; ++i)
        queues.push_back(std::make_unique<queue>(true));
    std::atomic<std::size_t> done{0};
    const auto run = [&](item* i) {
        i->payload *= 3;
        ++i->runs;
        done.fetch_add(1, std::memory_order_relaxed);
    };
    std::latch begin(thieves + 1);
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t <= thieves; ++t) {
        threads.emplace_back([&, t] {
            begin.arrive_and_wait();
            while (done.load(std::memory_order_relaxed) < items) {
                item* i = queues[t]->pop();
                for (std::size_t v = 1; i == nullptr && v <= thieves; ++v)
                    i = queues[(t + v) % (thieves + 1)]->steal_for(*queues[t]);
                i != nullptr ? run(i) : std::this_thread::yield();
            }
        });
    }
    begin.arrive_and_wait();
    std::mt19937 random(7);
    for (std::size_t next = 0; next < items || done.load(std::memory_order_relaxed) < items;) {
        for (std::size_t n = random() % 64; n > 0 && next < items; --n, ++next) {
            all[next].payload = next;
            queues[0]->push(&all[next], n % 2 == 0);
        }
        task_list<item> some;
        for (std::size_t n = random() % 16; n > 0 && next < items; --n, ++next) {
            all[next].payload = next;
            some.push(&all[next]);
        }
        queues[0]->push_all(some);
        for (std::size_t n = random() % 64; n > 0; --n) {
            item* const i = queues[0]->pop();
            if (i == nullptr) break;
            run(i);
        }
        if (next == items) std::this_thread::yield();
    }
    for (std::thread& t : threads)
        t.join();
    EXPECT_EQ(done, items);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < items; ++i)
        wrong += all[i].runs == 1 && all[i].payload == 3 * i ? 0U : 1U;
    EXPECT_EQ(wrong, 0U);
    for (const auto& q : queues)
        EXPECT_TRUE(q->empty());
}

TEST(RunQueueStress, EachItemOnceThroughALargeRing) {
    each_item_once<1024>();
}

TEST(RunQueueStress, EachItemOnceThroughASmallRing) {
    each_item_once<8>();
}

}  // namespace
}  // namespace verge::fibers::detail
