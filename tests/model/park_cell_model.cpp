// mutates: include/verge/fiber/detail/park_cell.hpp
//
// Explores the interleavings of an owner that waits and of those who may end its wait: a notifier,
// a timer, an interrupter.  Exits with 1 and prints the guilty history if an assertion fails.
//
// The owner's thread is also the code that runs after the switch: it calls commit().  Requests are
// a word as in parkable.hpp.  What is on the owner's stack, and what a claimer leaves for it, are
// rl::vars: relacy reports any access that is not ordered after the last one.

#include "relacy_std.hpp"
#include <verge/fiber/detail/park_cell.hpp>

namespace {

using verge::fibers::detail::claim_result;
using verge::fibers::detail::wake_reason;

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
};
using cell_type = verge::fibers::detail::basic_park_cell<model_platform>;

constexpr unsigned reasons = 3;

// An owner with its cell, its requests and a place to be made ready.
template <class Suite, int Threads>
struct owner_suite : rl::test_suite<Suite, Threads> {
    cell_type cell;
    rl::atomic<std::uint32_t> requests;
    rl::atomic<std::uint64_t> known;  // the epoch that the owner has told others
    rl::atomic<std::uint64_t> ready;  // the epoch whose owner has been made ready
    rl::var<int> stack;               // what the owner leaves there when it switches away
    rl::var<int> message[reasons];    // what a claimer writes before its claim
    // Plain: relacy runs one thread at a time, and these are for assertions only.
    std::uint64_t announced = 0;   // the last epoch that began
    std::uint64_t left = 0;        // the last epoch in which the owner has left its stack
    std::uint64_t made_ready = 0;  // the last epoch in which it was made ready
    int won[3] = {};               // claims that succeeded, by epoch

    void before() {
        requests.store(0, rl::mo_relaxed, $);
        known.store(0, rl::mo_relaxed, $);
        ready.store(0, rl::mo_relaxed, $);
        stack($) = 0;
        for (auto& m : message)
            m($) = 0;
    }

    // By whoever must: once a wait, not before the owner has left its stack, which is then his.
    void make_ready(std::uint64_t epoch) {
        RL_ASSERT(left == epoch);
        RL_ASSERT(made_ready < epoch);
        made_ready = epoch;
        RL_ASSERT(stack($) == static_cast<int>(epoch));
        stack($) = -1;
        ready.store(epoch, rl::mo_release, $);  // as a run queue does
    }

    void note(claim_result result, std::uint64_t epoch) {
        if (result == claim_result::lost) return;
        ++won[epoch];
        if (result == claim_result::ready) make_ready(epoch);
    }

    void claim(std::uint64_t epoch, wake_reason why) {
        message[static_cast<unsigned>(why)]($) = 42;
        note(cell.claim(epoch, why), epoch);
    }

    // As parkable::request().
    void request() {
        message[static_cast<unsigned>(wake_reason::interrupted)]($) = 42;
        requests.fetch_or(1, std::memory_order_seq_cst);
        // An interrupt names no epoch: it is the last that was announced.
        const claim_result result = cell.interrupt();
        note(result, announced);
    }

    std::uint64_t begin(bool interruptible) {
        announced = announced + 1;
        const std::uint64_t epoch = cell.begin(interruptible);
        RL_ASSERT(epoch == announced);
        return epoch;
    }

    // The switch, the code after it, and the way back.
    wake_reason suspend(std::uint64_t epoch) {
        stack($) = static_cast<int>(epoch);
        left = epoch;
        if (!cell.commit(epoch)) make_ready(epoch);
        while (ready.load(std::memory_order_acquire) != epoch)
            rl::yield(1, $);
        RL_ASSERT(made_ready == epoch);
        return finish();
    }
    wake_reason finish() {
        const wake_reason why = cell.finish();
        RL_ASSERT(message[static_cast<unsigned>(why)]($) == 42);
        return why;
    }
};

// One claim of many wins; the owner is made ready once, after it has left its stack; it sees what
// the winner wrote.  It announces, tells others, and looks at its requests as wait() does.
struct one_claim_wins : owner_suite<one_claim_wins, 4> {
    bool abandoned = false;
    void thread(unsigned index) {
        if (index == 0) {
            const std::uint64_t epoch = begin(true);
            known.store(epoch, std::memory_order_release);
            if (requests.load(std::memory_order_seq_cst) == 0) {
                suspend(epoch);
            } else if (cell.abandon(epoch)) {
                abandoned = true;
            } else {
                finish();
            }
        } else if (index == 3) {
            request();
        } else {
            std::uint64_t epoch = 0;
            while ((epoch = known.load(std::memory_order_acquire)) == 0)
                rl::yield(1, $);
            claim(epoch, index == 1 ? wake_reason::notified : wake_reason::timed_out);
        }
    }
    void after() { RL_ASSERT(won[1] + (abandoned ? 1 : 0) == 1); }
};

// A request is seen by the owner, or it ends the wait: else the owner sleeps for ever, which relacy
// reports as a live-lock.
struct a_request_is_not_lost : owner_suite<a_request_is_not_lost, 2> {
    void thread(unsigned index) {
        if (index == 1) return request();
        const std::uint64_t epoch = begin(true);
        if (requests.load(std::memory_order_seq_cst) == 0) {
            RL_ASSERT(suspend(epoch) == wake_reason::interrupted);
        } else if (!cell.abandon(epoch)) {
            RL_ASSERT(finish() == wake_reason::interrupted);
        }
    }
};

// A wait that cannot be interrupted is not, and the request stays for the next that can.
struct a_request_waits_for_its_wait : owner_suite<a_request_waits_for_its_wait, 3> {
    void thread(unsigned index) {
        if (index == 1) return request();
        if (index == 2) {
            while (known.load(std::memory_order_acquire) == 0)
                rl::yield(1, $);
            return claim(1, wake_reason::notified);
        }
        std::uint64_t epoch = begin(false);
        known.store(epoch, std::memory_order_release);
        RL_ASSERT(suspend(epoch) == wake_reason::notified);
        epoch = begin(true);
        if (requests.load(std::memory_order_seq_cst) == 0) {
            RL_ASSERT(suspend(epoch) == wake_reason::interrupted);
        } else if (!cell.abandon(epoch)) {
            RL_ASSERT(finish() == wake_reason::interrupted);
        }
    }
};

// A claim on a wait that is over does nothing to the next one.
struct a_stale_epoch_does_nothing : owner_suite<a_stale_epoch_does_nothing, 3> {
    void thread(unsigned index) {
        if (index == 0) {
            for (std::uint64_t round = 1; round <= 2; ++round) {
                const std::uint64_t epoch = begin(round == 2);
                known.store(epoch, std::memory_order_release);
                const wake_reason why = suspend(epoch);
                RL_ASSERT(round == 1 || why == wake_reason::notified);
            }
        } else if (index == 1) {
            std::uint64_t epoch = 0;
            while ((epoch = known.load(std::memory_order_acquire)) == 0)
                rl::yield(1, $);
            claim(epoch, wake_reason::notified);
            if (epoch == 2) return;
            while (known.load(std::memory_order_acquire) == 1)
                rl::yield(1, $);
            message[0]($) = 42;
            note(cell.claim(2, wake_reason::notified), 2);
        } else {
            while (known.load(std::memory_order_acquire) == 0)
                rl::yield(1, $);
            claim(1, wake_reason::timed_out);  // in time, or for a wait that is over
        }
    }
    void after() { RL_ASSERT(won[1] == 1 && won[2] == 1); }
};

// An owner that gives up by itself races a notifier: one of them ends the wait.
struct abandon_meets_claim : owner_suite<abandon_meets_claim, 3> {
    bool abandoned = false;
    void thread(unsigned index) {
        if (index > 0) {
            std::uint64_t epoch = 0;
            while ((epoch = known.load(std::memory_order_acquire)) == 0)
                rl::yield(1, $);
            return claim(epoch, index == 1 ? wake_reason::notified : wake_reason::timed_out);
        }
        const std::uint64_t epoch = begin(false);
        known.store(epoch, std::memory_order_release);
        abandoned = cell.abandon(epoch);
        if (!abandoned) finish();
    }
    void after() { RL_ASSERT(won[1] + (abandoned ? 1 : 0) == 1 && made_ready == 0); }
};

// A plain thread looks whether it was claimed, and then sees what the claimer wrote.
struct claimed_publishes : owner_suite<claimed_publishes, 2> {
    void thread(unsigned index) {
        if (index == 1) {
            while (known.load(std::memory_order_acquire) == 0)
                rl::yield(1, $);
            message[0]($) = 42;
            static_cast<void>(cell.claim(1, wake_reason::notified));
            return;
        }
        const std::uint64_t epoch = begin(false);
        known.store(epoch, std::memory_order_release);
        while (!cell.claimed(epoch))
            rl::yield(1, $);
        RL_ASSERT(message[0]($) == 42);
        RL_ASSERT(cell.finish() == wake_reason::notified);
        RL_ASSERT(!cell.claimed(epoch));
    }
};

}  // namespace

int main() {
    const bool ok = explore<a_request_is_not_lost>(every, 0) &&
                    explore<claimed_publishes>(every, 0) &&
                    explore<one_claim_wins>(random_ones, 200'000) &&
                    explore<a_request_waits_for_its_wait>(random_ones, 50'000) &&
                    explore<a_stale_epoch_does_nothing>(random_ones, 50'000) &&
                    explore<abandon_meets_claim>(random_ones, 50'000);
    return ok ? 0 : 1;
}
