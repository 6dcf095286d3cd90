// A strand on an executor of the user's, which may refuse.

#include "unit/io/io_fixture.hpp"
#include <verge/base/callback.hpp>
#include <verge/io/strand.hpp>

#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace verge {
namespace {

struct refusal : std::runtime_error {
    refusal() : std::runtime_error("refused") {}
};

// Keeps what it is given until somebody runs it.
struct hand_queue {
    std::mutex lock;
    std::deque<callback> waiting;
    std::atomic<int> refuse = 0;        // how many are to be refused
    std::atomic<bool> discard = false;  // takes it, and destroys it
    void (*while_refusing)(hand_queue& self) = nullptr;
    void* more = nullptr;

    bool run_one() {
        callback next;
        {
            const std::lock_guard hold(lock);
            if (waiting.empty()) return false;
            next = std::move(waiting.front());
            waiting.pop_front();
        }
        next();
        return true;
    }
    void run() {
        while (run_one()) {
        }
    }
};

class hand_executor {
public:
    explicit hand_executor(hand_queue& q) noexcept : queue_(&q) {}
    template <class F>
    void execute(F&& f) const {
        const callback own(std::forward<F>(f));
        if (queue_->refuse > 0) {
            --queue_->refuse;
            if (queue_->while_refusing != nullptr) queue_->while_refusing(*queue_);
            throw refusal();
        }
        if (queue_->discard) return;
        const std::lock_guard hold(queue_->lock);
        queue_->waiting.push_back(std::move(const_cast<callback&>(own)));
    }
    [[maybe_unused]] friend bool operator==(hand_executor, hand_executor) noexcept = default;

private:
    hand_queue* queue_;
};

class StrandOfAUser : public testing::Test {
public:
    hand_queue queue;
    strand<hand_executor> one{hand_executor(queue)};
    std::string order;
    auto note(char letter) {
        return [this, letter] { order += letter; };
    }
};

TEST_F(StrandOfAUser, RunsInOrder) {
    for (const char letter : std::string("abc"))
        one.execute(note(letter));
    EXPECT_TRUE(queue.run_one());
    EXPECT_EQ(order, "abc");
    EXPECT_FALSE(queue.run_one());
}

TEST_F(StrandOfAUser, ARefusedFunctionWasNotPosted) {
    const auto alive = std::make_shared<int>();
    queue.refuse = 1;
    EXPECT_THROW(one.execute([alive] {}), refusal);
    EXPECT_EQ(alive.use_count(), 1);
    one.execute(note('a'));
    queue.run();
    EXPECT_EQ(order, "a");
}

// Somebody else relies on the turn that is being refused.
TEST_F(StrandOfAUser, WhatOthersHavePostedWaitsForTheNext) {
    static StrandOfAUser* test = nullptr;
    test = this;
    queue.while_refusing = [](hand_queue&) {
        std::thread([] { test->one.execute(test->note('b')); }).join();
    };
    queue.refuse = 1;
    EXPECT_THROW(one.execute(note('a')), refusal);
    EXPECT_FALSE(queue.run_one());
    EXPECT_EQ(order, "");
    one.execute(note('c'));
    queue.run();
    EXPECT_EQ(order, "bc");
}

TEST_F(StrandOfAUser, ARefusedNextTurnLeavesTheFunctionAndTheRestWaits) {
    one.execute([this] {
        one.post(note('b'));  // for the next turn
        queue.refuse = 1;
        order += 'a';
    });
    EXPECT_THROW(queue.run_one(), refusal);
    EXPECT_EQ(order, "a");
    EXPECT_FALSE(queue.run_one());
    one.execute(note('c'));
    queue.run();
    EXPECT_EQ(order, "abc");

    order.clear();
    one.execute([this] {
        one.post(note('e'));
        queue.refuse = 1;
        order += 'd';
        throw 1;  // counts more than the refusal
    });
    one.execute(note('x'));  // of the same turn
    EXPECT_THROW(queue.run_one(), int);
    EXPECT_EQ(order, "d");
    one.execute(note('f'));
    queue.run();
    EXPECT_EQ(order, "dxef");
}

TEST_F(StrandOfAUser, ADestroyedTurnDestroysWhatWaits) {
    const auto alive = std::make_shared<int>();
    one.execute([alive, own = one] {});  // it holds the strand, and the strand holds it
    one.execute([alive, own = one] {});
    EXPECT_EQ(alive.use_count(), 3);
    queue.waiting.clear();
    EXPECT_EQ(alive.use_count(), 1);

    queue.discard = true;  // at once
    one.execute([alive, own = one] {});
    EXPECT_EQ(alive.use_count(), 1);
    queue.discard = false;
    one.execute(note('a'));
    queue.run();
    EXPECT_EQ(order, "a");
}

// Refusals, turns and posts in several threads: what was taken runs, what was refused does not.
TEST_F(StrandOfAUser, NothingIsLostAmongRefusals) {
    constexpr int threads = 3;
    constexpr int each = 2000;
    std::atomic<int> taken = 0;
    std::atomic<int> posting = threads;
    int ran = 0;  // under the strand
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
        all.emplace_back([&] {
            for (int i = 0; i < each; ++i) {
                if (i % 16 == 0) ++queue.refuse;
                try {
                    one.execute([&] { ++ran; });
                    ++taken;
                } catch (const refusal&) {
                }
            }
            --posting;
        });
    }
    while (posting > 0) {
        try {
            queue.run();
        } catch (const refusal&) {
        }
    }
    for (std::thread& thread : all)
        thread.join();
    queue.refuse = 0;
    one.execute([&] { ++ran; });
    queue.run();
    EXPECT_EQ(ran, taken + 1);
}

}  // namespace
}  // namespace verge
